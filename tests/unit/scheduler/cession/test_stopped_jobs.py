"""A job that was stopped for a preemptor runs again when no open Cession needs that any more."""

from dataclasses import replace
from math import inf

import pytest

from scheduler.actions import SetWorkloadActive
from scheduler.cession.stopped_jobs import run_again, set_aside_events
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import NOW, admitted, cession, pending, snapshot


def activated(state: Snapshot) -> list[SetWorkloadActive]:
    is_open = [cession for cession in state.cessions if cession.open]
    return list(run_again(state, is_open, NOW))


WAITING = pending("gpt", "research", active=False, stopped_for="c-1", job_uid="job-uid-gpt")
STOPPING = admitted("gpt", active=False, stopped_for="c-1")
EVICTED = replace(STOPPING, is_evicted=True)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(snapshot(pending=[WAITING]), id="its Cession was deleted"),
        pytest.param(snapshot(admitted=[EVICTED]), id="Kueue counts it a moment longer"),
        pytest.param(
            snapshot(pending=[WAITING], ending={"job-uid-gpt": JobPods(ends_by=NOW - 30)}),
            id="its pods do not end, and had their time",
        ),
        pytest.param(
            snapshot(pending=[WAITING], cessions=[cession("Failed")]),
            id="its Cession ended, and the write that followed was lost",
        ),
        pytest.param(
            snapshot(pending=[WAITING], cessions=[cession("Admitted")]),
            id="the preemptor does not wait any more",
        ),
        pytest.param(
            snapshot(pending=[pending("gpt", "research", stopped_for="c-1")]),
            id="somebody activated it, and only the label is left",
        ),
    ],
)
def test_it_runs_again(state: Snapshot) -> None:
    [action] = activated(state)
    assert (action.workload, action.uid) == (("research", "job-gpt"), "uid-gpt")
    assert (action.active, action.cession) == (True, "")


def test_it_waits_until_kueue_has_evicted_it() -> None:
    """Somebody else may have its quota already."""
    assert not activated(snapshot(admitted=[STOPPING], cessions=[cession("Admitted")]))


@pytest.mark.parametrize("job", [EVICTED, WAITING])
def test_it_waits_until_its_pods_have_ended(job: PendingWorkload | AdmittedWorkload) -> None:
    """New pods would continue from what the old ones have not saved yet."""
    waiting = [job] if isinstance(job, PendingWorkload) else []
    running = [job] if isinstance(job, AdmittedWorkload) else []
    ending = {job.identity: JobPods(on_nodes=1, ends_by=NOW + 5)}
    assert not activated(snapshot(pending=waiting, admitted=running, ending=ending))


def test_the_pods_of_a_running_job_do_not_hold_up_its_growth() -> None:
    slice_ = replace(WAITING, job_uid="job-uid-gpt", is_scale_up=True)
    ending = {"job-uid-gpt": JobPods(on_nodes=1, ends_by=inf)}
    assert activated(snapshot(pending=[slice_], admitted=[admitted("gpt")], ending=ending))


def test_it_waits_while_its_cession_is_open() -> None:
    assert not activated(snapshot(pending=[WAITING], cessions=[cession("Asked")]))


def test_a_job_that_its_user_stopped_stays_stopped() -> None:
    assert not activated(snapshot(pending=[pending("gpt", "research", active=False)]))


def test_a_job_that_is_set_aside_while_it_waits_is_told_until_when_and_why() -> None:
    """One that runs is told when it has released its capacity."""
    current = snapshot(pending=[pending("big", job_uid="u")], admitted=[admitted("gpt")])
    why = "it waits before job-claim, for which capacity is released"
    aside = SetWorkloadActive(("vision", "job-big"), "uid-big", False, why, "c-1")
    stopped = SetWorkloadActive(("research", "job-gpt"), "uid-gpt", False, "for claim", "c-1")
    again = SetWorkloadActive(("vision", "job-big"), "uid-big", True, "it is over")
    (event,) = set_aside_events([stopped, again, aside], current)
    assert (event.job, event.job_uid, event.reason) == (("vision", "big"), "u", "SetAside")
    assert event.note == f"until Cession c-1 has ended: {why}"
