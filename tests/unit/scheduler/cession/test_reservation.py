"""What keeps released capacity for a preemptor, and that it always ends."""

from dataclasses import replace

import pytest

from cede.api.cession_status import TargetStatus
from cede.api.objects import rfc3339
from scheduler.actions import (
    DeleteGuard,
    RequeueWorkload,
    SetQueueingStrategy,
    SetWorkloadActive,
)
from scheduler.cession.reservation import HOLD_S, REQUEUE_S, hopeless_heads, prepare, restore
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload, PendingWorkloads
from tests.builders.scheduler import (
    NOW,
    RESERVED,
    cession,
    cohort_quota,
    gpus,
    pending,
    queue,
    snapshot,
)

READY = {"job-uid-gpt": True}
NOT_READY = {"job-uid-gpt": False}
STRICT = SetQueueingStrategy("vision", "StrictFIFO", "7")
SINCE = rfc3339(NOW, micro=True)
BEST_EFFORT = SetQueueingStrategy("vision", "BestEffortFIFO", "7")


def waiting(
    strategy: str = "StrictFIFO",
    *before: PendingWorkload,
    is_observed: bool = True,
    requeued_at: str = "",
    is_tried: bool = False,
) -> Snapshot:
    """`claim` is pending in vision, behind the Workloads `before`."""
    claim = replace(pending(), requeued_at=requeued_at, is_tried=is_tried)
    vision = replace(queue("vision", strategy=strategy), is_observed=is_observed)
    quota = cohort_quota(vision, queue("research", used=8))
    return snapshot(quota, pending=[*before, claim])


# --- the queue ------------------------------------------------------------------------------------
def test_the_queue_becomes_strict_and_nothing_is_released_before() -> None:
    reservation = prepare(cession(reservedTime=""), waiting("BestEffortFIFO"), NOW, READY)
    assert reservation.actions == (STRICT,)
    assert not reservation.may_release


def test_a_strict_queue_is_not_written_again() -> None:
    assert prepare(cession(), waiting(), NOW, READY).actions == ()


def test_nothing_is_released_before_kueue_has_read_the_queue() -> None:
    reservation = prepare(cession(reservedTime=""), waiting(is_observed=False), NOW, READY)
    assert (reservation.since, reservation.may_release) == ("", False)


def test_the_preemptor_is_requeued_once_the_queue_is_strict() -> None:
    """Kueue keeps nothing for what it has not tried since."""
    requeue = RequeueWorkload(("vision", "job-claim"), "uid-claim", "main", SINCE)
    first = prepare(cession(reservedTime=""), waiting(is_tried=True), NOW, READY)
    assert (first.since, first.may_release, first.actions) == (SINCE, False, ())
    recorded = prepare(cession(reservedTime=SINCE), waiting(), NOW + 0.1, READY)
    assert (recorded.since, recorded.may_release, recorded.actions) == (SINCE, False, (requeue,))


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize("is_tried", [False, True])
@pytest.mark.parametrize("requeued_at", ["", RESERVED, SINCE])
@pytest.mark.parametrize("is_scale_up", [False, True])
def test_nothing_is_released_before_kueue_has_tried_the_preemptor(
    requeued_at: str, is_tried: bool, is_observed: bool, is_scale_up: bool
) -> None:
    """Since the queue is StrictFIFO this time: RESERVED is from an earlier time."""
    claim = replace(pending(), requeued_at=requeued_at, is_tried=is_tried, is_scale_up=is_scale_up)
    current = waiting(is_observed=is_observed)
    current = replace(current, pending=PendingWorkloads([claim]))
    reservation = prepare(cession(reservedTime=SINCE), current, NOW + 0.1, READY)
    assert reservation.may_release is (requeued_at == SINCE and is_tried and is_observed)
    assert bool(reservation.actions) is (requeued_at != SINCE)


def test_the_release_waits_for_kueue_no_longer_than_kueue_takes_by_itself() -> None:
    """The preemptor may be behind others that Kueue tries first by right."""
    current = waiting(requeued_at=SINCE)
    record = cession(reservedTime=SINCE)
    assert not prepare(record, current, NOW + REQUEUE_S - 0.1, READY).may_release
    assert prepare(record, current, NOW + REQUEUE_S, READY).may_release
    assert prepare(record, waiting(), NOW + REQUEUE_S, READY).actions == ()


def test_the_clock_of_an_earlier_leader_does_not_hold_the_release_up() -> None:
    """It was an hour ahead. The wait counts while this scheduler leads."""
    record = cession(reservedTime=rfc3339(NOW + 3600, micro=True))
    current = replace(waiting(), led_since=NOW)
    assert not prepare(record, current, NOW + REQUEUE_S - 0.1, READY).may_release
    assert prepare(record, current, NOW + REQUEUE_S, READY).may_release


def test_the_wait_begins_again_if_the_queue_was_changed_back() -> None:
    reservation = prepare(cession(), waiting("BestEffortFIFO"), NOW, READY)
    assert (reservation.since, reservation.may_release) == ("", False)


def test_a_later_change_of_the_queue_does_not_hold_the_release_up() -> None:
    assert prepare(cession(), waiting(is_observed=False), NOW, READY).may_release


# --- teams that would wait ------------------------------------------------------------------------
def test_a_team_within_its_own_quota_goes_first_while_targets_are_not_ready() -> None:
    """A StrictFIFO queue would keep it out, though nothing is released yet."""
    bystander = pending("other", "research", pods=2)
    quota = cohort_quota(
        queue("vision", strategy="StrictFIFO"), queue("research", 8, 2), queue("third", used=8)
    )
    current = snapshot(quota, pending=[pending(), bystander])
    early = prepare(cession(), current, NOW, NOT_READY)
    assert (early.actions, early.may_release, early.since) == ((BEST_EFFORT,), False, "")
    assert prepare(cession(), current, NOW, READY).may_release


@pytest.mark.parametrize("is_guarded", [False, True])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_team_within_its_own_quota_goes_first_when_a_release_takes_long(
    is_guarded: bool, is_slow: bool
) -> None:
    """After an earlier release too: a resize may have no effect, or a target came later."""
    since = NOW - (HOLD_S + 1 if is_slow else 1)
    target = TargetStatus(uid="job-uid-gpt", resizeRequestedTime=rfc3339(since))
    done = TargetStatus(uid="job-uid-bert", releasedTime=rfc3339(NOW))
    pods = 6 if is_guarded else 4
    quota = cohort_quota(
        queue("vision", strategy="StrictFIFO"), queue("research", 8, 2), queue("third", used=8)
    )
    current = snapshot(quota, pending=[pending(pods=pods), pending("other", "research", 2)])
    guard = Guard("c-1", is_observed=True, is_admitted=True, in_cohort=True, usage=gpus(6))
    current = replace(current, guards=(guard,) * is_guarded)
    kept = prepare(cession("Asked", targets=[done, target]), current, NOW, READY)
    assert kept.may_release is not is_slow
    assert (BEST_EFFORT in kept.actions) is is_slow
    assert (DeleteGuard("c-1") in kept.actions) is (is_slow and is_guarded)
    without = replace(current, pending=PendingWorkloads(current.pending[:1]))
    assert prepare(cession("Asked", targets=[done, target]), without, NOW, READY).may_release


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pending("other", "research", 2, active=False), id="not active"),
        pytest.param(pending("other", "research", 2, ineligible="on hold"), id="not tried"),
        pytest.param(pending("other", "research", 8), id="past its team's own"),
    ],
)
def test_the_queue_stays_strict_for_whom_kueue_would_not_admit_at_once(
    other: PendingWorkload,
) -> None:
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research", 8, 2))
    current = snapshot(quota, pending=[pending(), other])
    assert prepare(cession(), current, NOW, NOT_READY).actions == ()


# --- what waits before the preemptor --------------------------------------------------------------
@pytest.mark.parametrize(
    ("before", "is_hopeless"),
    [
        pytest.param(pending("x", pods=6), True, id="more than its team owns"),
        pytest.param(pending("x", pods=4), False, id="within its team's own, first by right"),
        pytest.param(pending("x", pods=6, active=False), False, id="inactive"),
        pytest.param(pending("x", pods=6, ineligible="held"), False, id="not tried by Kueue"),
        pytest.param(pending("x", pods=6, is_scale_up=True), False, id="slice of a running job"),
        pytest.param(pending("x", "research", pods=6), False, id="of another queue"),
    ],
)
def test_who_is_set_aside(before: PendingWorkload, is_hopeless: bool) -> None:
    current = waiting("StrictFIFO", before)
    assert list(hopeless_heads(cession(), current)) == [before] * is_hopeless


def test_who_exceeds_the_rest_of_its_teams_own_quota_is_set_aside() -> None:
    quota = cohort_quota(queue("vision", used=2), queue("research", used=8))
    big = pending("x", pods=3)
    assert list(hopeless_heads(cession(), snapshot(quota, pending=[big, pending()]))) == [big]


def test_who_waits_behind_the_preemptor_is_left_alone() -> None:
    current = snapshot(pending=[pending(), pending("x", pods=6)])
    assert not list(hopeless_heads(cession(), current))


def test_nobody_is_set_aside_for_a_growth_while_others_save() -> None:
    """A waiting job would pay for a running one. When all can release it is set aside for a moment:
    Kueue would try it first and nobody else."""
    current = waiting("StrictFIFO", pending("x", pods=6))
    grows = replace(
        current,
        pending=PendingWorkloads([current.pending[0], replace(pending(), is_scale_up=True)]),
    )
    assert not prepare(cession(), grows, NOW, NOT_READY).actions
    assert prepare(cession(), grows, NOW, READY).actions


def test_who_waits_hopeless_before_the_preemptor_is_set_aside_and_nothing_released_yet() -> None:
    current = waiting("StrictFIFO", pending("x", pods=6))
    reservation = prepare(cession(reservedTime=""), current, NOW, READY)
    (aside,) = reservation.actions
    assert isinstance(aside, SetWorkloadActive)
    assert (aside.uid, aside.active, aside.cession) == ("uid-x", False, "c-1")
    assert (reservation.since, reservation.may_release) == (rfc3339(NOW, micro=True), False)


def test_who_arrives_later_is_set_aside_and_does_not_delay_the_release() -> None:
    """However often somebody arrives, or is activated again."""
    current = waiting("StrictFIFO", pending("x", pods=6))
    reservation = prepare(cession(), current, NOW, READY)
    assert [type(action) for action in reservation.actions] == [SetWorkloadActive]
    assert (reservation.since, reservation.may_release) == (RESERVED, True)


# --- the end --------------------------------------------------------------------------------------
def test_a_strict_queue_is_restored_unless_an_open_cession_needs_it() -> None:
    strict = waiting()
    assert list(restore(strict, [cession()])) == []
    assert list(restore(strict, [])) == [BEST_EFFORT]
