"""Which job gives back what is in use beyond the quota that exists."""

from dataclasses import replace

from elastic_runtime.contract import Status
from scheduler.actions import RequestSize, ResizeJob
from scheduler.overuse import shrink_overuse
from scheduler.snapshot import Snapshot
from tests.builders.scheduler import KEY, admitted, runtime_status, snapshot


def two_too_many(runtime: Status | None = None) -> Snapshot:
    """Ten accelerators are in use, and eight exist. Research borrows."""
    own = admitted("own", "vision", size=2, allowed_sizes=())
    return snapshot(admitted=[admitted(runtime=runtime), own])


def test_a_borrowing_job_without_a_runtime_is_resized() -> None:
    (action,) = shrink_overuse(two_too_many(), ())
    assert isinstance(action, ResizeJob)
    assert (action.job[1], action.size) == ("gpt", 6)


def test_a_job_whose_runtime_answers_is_asked_first() -> None:
    (action,) = shrink_overuse(two_too_many(runtime_status(8)), ())
    assert isinstance(action, RequestSize)
    assert (action.job[1], action.size) == ("gpt", 6)


def test_a_job_that_has_ceded_is_resized() -> None:
    (action,) = shrink_overuse(two_too_many(runtime_status(6, wanted=6)), ())
    assert isinstance(action, ResizeJob)


def test_a_target_of_an_open_cession_is_left_to_it() -> None:
    assert list(shrink_overuse(two_too_many(), {"job-uid-gpt"})) == []


def test_nothing_shrinks_where_all_quota_is_in_use() -> None:
    assert list(shrink_overuse(snapshot(admitted=[admitted(size=8)]), ())) == []


def test_nothing_shrinks_while_kueue_counts_less_than_its_workloads_have() -> None:
    current = replace(two_too_many(), disagreement=frozenset({KEY}))
    assert list(shrink_overuse(current, ())) == []
