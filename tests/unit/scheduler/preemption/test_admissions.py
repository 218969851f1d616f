"""What is idle is not counted on if Kueue is about to admit others into it."""

from dataclasses import replace

from scheduler.preemption.admissions import after_admissions
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import KEY, admitted, cohort_quota, pending, queue, snapshot


def idle_of_vision(current: Snapshot) -> int:
    return after_admissions(current).quota.available("vision", KEY)


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
    assert after_admissions(current, {"uid-claim"}) is current


def test_while_nothing_fits_the_snapshot_is_the_same() -> None:
    current = snapshot(admitted=[admitted(size=8)], pending=[pending()])
    assert after_admissions(current) is current
