"""Where the preemptor of a Cession is, and why its pods are not ready."""

from dataclasses import replace

import pytest

from cede.api.cession_status import CessionStatus
from scheduler.actions import UpdateCession
from scheduler.cession.advance import Step, advance
from scheduler.cession.cession_lifecycle import Occurrence
from scheduler.cession.preemptor_state import (
    START_S,
    find_preemptor,
    pods_are_ready,
    starting_reason,
)
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import NOW, admitted, cession, pending, snapshot


@pytest.mark.parametrize(
    ("current", "state"),
    [
        pytest.param(snapshot(pending=[pending()]), (True, False, False), id="pending"),
        pytest.param(
            snapshot(admitted=[admitted("claim", "vision", 4)]), (False, True, False), id="admitted"
        ),
        pytest.param(
            snapshot(finished=frozenset({"uid-claim"})), (False, False, True), id="finished"
        ),
        pytest.param(snapshot(pending=[pending("other")]), (False, False, False), id="deleted"),
    ],
)
def test_the_preemptor_is_in_one_state(current: Snapshot, state: tuple[bool, ...]) -> None:
    state_now = find_preemptor(cession(), current)
    flags = (bool(state_now.pending), bool(state_now.admitted), state_now.finished)
    assert flags == state


CLAIM = admitted("claim", "vision", 4, ready_pods=1)
MORE = "`cede explain -n vision claim` says more."


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        pytest.param(CLAIM, "1 of its 4 pods is ready.", id="nothing hinders them"),
        pytest.param(
            replace(CLAIM, ready_pods=0), "0 of its 4 pods are ready.", id="none is ready"
        ),
        pytest.param(
            replace(CLAIM, failing_pods={"ImagePullBackOff": 3}),
            "1 of its 4 pods is ready. Of the others: 3 in ImagePullBackOff.",
            id="an image cannot be pulled",
        ),
        pytest.param(
            replace(CLAIM, unplaced_pods=2),
            "1 of its 4 pods is ready. Of the others: 2 without room on any node.",
            id="no node has room",
        ),
        pytest.param(
            replace(CLAIM, absent_pods=3),
            "1 of its 4 pods is ready. Of the others: 3 not created.",
            id="the pods were refused",
        ),
        pytest.param(
            replace(
                CLAIM,
                ready_pods=0,
                absent_pods=1,
                unplaced_pods=1,
                failing_pods={"ImagePullBackOff": 1, "CrashLoopBackOff": 1},
            ),
            "0 of its 4 pods are ready. Of the others: 1 not created, 1 without room on any node, "
            "1 in CrashLoopBackOff, 1 in ImagePullBackOff.",
            id="all of that, in one order",
        ),
    ],
)
def test_why_the_pods_of_an_admitted_preemptor_are_not_ready(
    workload: AdmittedWorkload, expected: str
) -> None:
    reason = starting_reason(cession().spec.preemptor, workload, START_S)
    assert reason == f"{expected} {MORE}"
    assert starting_reason(cession().spec.preemptor, workload, START_S + 3600) == reason


def test_nothing_hinders_pods_that_have_just_begun_to_start_or_are_ready() -> None:
    stuck = replace(CLAIM, failing_pods={"ImagePullBackOff": 3})
    assert starting_reason(cession().spec.preemptor, stuck, START_S - 1) == ""
    ready = replace(CLAIM, ready_pods=4)
    without_job = replace(CLAIM, job_version="")
    for workload in (ready, without_job):
        assert pods_are_ready(workload)
        assert starting_reason(cession().spec.preemptor, workload, START_S) == ""


def recorded(step: Step) -> CessionStatus:
    return next(action.status for action in step.actions if isinstance(action, UpdateCession))


def test_a_cession_says_why_the_pods_of_its_preemptor_do_not_start_and_writes_it_once() -> None:
    claim = replace(CLAIM, ready_pods=0, failing_pods={"ImagePullBackOff": 4})
    stuck = snapshot(admitted=[admitted(size=4), claim])
    record = cession("Released")
    record.status = recorded(advance(record, stuck, NOW))
    assert "ImagePullBackOff" not in record.status.message
    record.status = recorded(advance(record, stuck, NOW + 60))
    assert (record.status.phase, "4 in ImagePullBackOff" in record.status.message) == (
        "Admitted",
        True,
    )
    assert not advance(record, stuck, NOW + 65).actions
    starts = snapshot(admitted=[admitted(size=4), replace(claim, failing_pods={}, ready_pods=1)])
    later = recorded(advance(record, starts, NOW + 70)).message
    assert ("1 of its 4 pods is ready" in later, "ImagePullBackOff" in later) == (True, False)


@pytest.mark.parametrize(
    ("waiting", "why"),
    [
        pytest.param(
            replace(pending(active=False, stopped_for="gpt-2"), evicted="It is deactivated"),
            " Why: it was stopped for Cession gpt-2.",
            id="another Cession",
        ),
        pytest.param(
            replace(pending(), evicted="Exceeded the PodsReady timeout"),
            " Why: Exceeded the PodsReady timeout.",
            id="Kueue",
        ),
        pytest.param(pending(), "", id="nobody knows"),
    ],
)
def test_a_cession_says_who_took_back_what_its_preemptor_had_been_given(
    waiting: PendingWorkload, why: str
) -> None:
    current = snapshot(admitted=[admitted(size=4)], pending=[waiting])
    status = recorded(advance(cession("Admitted"), current, NOW))
    assert status.message == Occurrence.ADMISSION_LOST.sentence + why
