"""What is idle is not counted on if Kueue is about to admit others into it."""

from dataclasses import replace

import pytest

from scheduler.preemption.admissions import after_admissions
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import KEY, admitted, cohort_quota, pending, queue, snapshot


def admitted_into(current: Snapshot, *counted: str, fair_sharing: bool = True) -> Snapshot:
    return after_admissions(current, counted, fair_sharing=fair_sharing)


def used(current: Snapshot, *, fair_sharing: bool = True) -> dict[str, int]:
    queues = admitted_into(current, fair_sharing=fair_sharing).quota.queues
    return {name: queue.usage[KEY] for name, queue in queues.items()}


def idle_of_vision(current: Snapshot) -> int:
    return admitted_into(current).quota.available("vision", KEY)


def test_what_fits_counts_as_admitted_in_kueues_order() -> None:
    """One job after the other: the second of speech does not fit any more."""
    waiting = [pending("asr", "speech", 3), pending("tts", "speech", 3), pending("nlp", pods=1)]
    quota = cohort_quota(queue("vision"), queue("speech"), queue("research", used=8))
    current = snapshot(quota, pending=waiting)
    assert current.quota.available("vision", KEY) == 4
    assert idle_of_vision(current) == 0


def test_a_job_that_kueue_does_not_try_takes_nothing() -> None:
    waiting = [
        pending("on-hold", pods=1, ineligible="its LocalQueue is on hold"),
        pending("stopped", pods=1, active=False),
        pending("overdue"),
    ]
    current = snapshot(admitted=[admitted(size=4)], pending=waiting)
    assert idle_of_vision(replace(current, overdue=frozenset({"uid-overdue"}))) == 4


def test_a_preemptor_whose_request_is_counted_already_is_not_counted_twice() -> None:
    current = snapshot(admitted=[admitted(size=4)], pending=[pending()])
    assert idle_of_vision(current) == 0
    assert admitted_into(current, "uid-claim") is current


def test_while_nothing_fits_the_snapshot_is_the_same() -> None:
    current = snapshot(admitted=[admitted(size=8)], pending=[pending()])
    assert admitted_into(current) is current


# --- Kueue's heads --------------------------------------------------------------------------------
@pytest.mark.parametrize(("strategy", "idle"), [("StrictFIFO", 8), ("BestEffortFIFO", 6)])
def test_nothing_is_admitted_behind_a_strict_head_that_does_not_fit(
    strategy: str, idle: int
) -> None:
    waiting = [pending("large", "speech", 9), pending("small", "speech", 2)]
    quota = cohort_quota(queue("vision"), queue("speech", strategy=strategy))
    assert idle_of_vision(snapshot(quota, pending=waiting)) == idle


def test_a_strict_head_that_fits_keeps_nobody_out() -> None:
    waiting = [pending("first", "speech", 3), pending("second", "speech", 3)]
    quota = cohort_quota(queue("vision"), queue("speech", strategy="StrictFIFO"))
    assert idle_of_vision(snapshot(quota, pending=waiting)) == 2


def test_each_queue_has_one_head_in_a_cycle() -> None:
    """The second job of speech comes after the first of research, whatever was made first."""
    waiting = [
        pending("asr", "speech", 4),
        pending("tts", "speech", 4),
        pending("gpt", "research", 4),
    ]
    quota = cohort_quota(queue("vision", 8), queue("speech", 0), queue("research", 0))
    assert used(snapshot(quota, pending=waiting)) == {"vision": 0, "speech": 4, "research": 4}


def test_a_head_within_its_own_quota_goes_before_an_older_one_that_borrows() -> None:
    waiting = [pending("asr", "speech", 4, priority=90), pending("gpt", "research", 4)]
    quota = cohort_quota(queue("vision", 2), queue("speech", 0), queue("research", 4))
    assert used(snapshot(quota, pending=waiting))["research"] == 4


@pytest.mark.parametrize(("fair_sharing", "first"), [(True, "research"), (False, "speech")])
def test_the_smaller_share_goes_first_only_with_fair_sharing(
    fair_sharing: bool, first: str
) -> None:
    waiting = [pending("asr", "speech", 2, priority=90), pending("gpt", "research", 2)]
    quota = cohort_quota(queue("vision", 6), queue("speech", 0, 3), queue("research", 0, 1))
    before = {"vision": 0, "speech": 3, "research": 1}
    after = used(snapshot(quota, pending=waiting), fair_sharing=fair_sharing)
    assert after == before | {first: before[first] + 2}
