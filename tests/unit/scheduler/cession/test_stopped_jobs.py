"""A job that was stopped for a preemptor runs again when no open Cession needs that any more."""

from dataclasses import replace

import pytest

from scheduler.actions import SetWorkloadActive
from scheduler.cession.stopped_jobs import run_again, set_aside_events
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import admitted, cession, pending, snapshot


def activated(state: Snapshot) -> list[SetWorkloadActive]:
    return list(run_again(state, [cession for cession in state.cessions if cession.open]))


WAITING = pending("gpt", "research", active=False, stopped_for="c-1")
STOPPING = admitted("gpt", active=False, stopped_for="c-1")
EVICTED = replace(STOPPING, is_evicted=True)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(snapshot(pending=[WAITING]), id="its Cession was deleted"),
        pytest.param(snapshot(admitted=[EVICTED]), id="and its pods still end"),
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
