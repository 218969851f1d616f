"""Which job gives back what is in use beyond the quota that exists."""

from collections.abc import Collection
from dataclasses import replace

from cede.api.policy import Preemption
from elastic_runtime.contract import Status
from scheduler.actions import RequestSize, ResizeJob
from scheduler.resizing.overuse import REQUEST_NAME, shrink_overuse
from scheduler.server_actions import DrainPod
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import (
    KEY,
    NOW,
    admitted,
    cohort_quota,
    queue,
    runtime_status,
    snapshot,
)

SETTINGS = Preemption(graceSeconds=60)


def shrunk(
    current: Snapshot, targets: Collection[str], now: float = NOW
) -> list[RequestSize | ResizeJob]:
    actions = shrink_overuse(current, targets, SETTINGS, now)
    return [action for action in actions if not isinstance(action, DrainPod)]


def two_too_many(
    runtime: Status | None = None, addresses: tuple[str, ...] = ("10.0.0.1",)
) -> Snapshot:
    """Ten accelerators are in use, and eight exist. Research borrows."""
    own = admitted("own", "vision", size=2, allowed_sizes=())
    return snapshot(admitted=[admitted(runtime=runtime, addresses=addresses), own])


def asked_before(current: Snapshot) -> Snapshot:
    asked = Observed(asked_for=REQUEST_NAME, asked_at=NOW, asked_size=6)
    return replace(
        current, admitted=tuple(replace(job, observed=asked) for job in current.admitted)
    )


def test_a_borrowing_job_that_cannot_be_asked_is_resized() -> None:
    (action,) = shrunk(two_too_many(addresses=()), ())
    assert isinstance(action, ResizeJob)
    assert (action.job[1], action.size) == ("gpt", 6)


def test_a_job_of_which_pods_have_ended_is_not_resized() -> None:
    """It would lose the pods of the highest indexes, which may be those that have work."""
    own = admitted("own", "vision", size=2, allowed_sizes=())
    assert not shrunk(snapshot(admitted=[admitted(addresses=(), ended_pods=1), own]), ())


def test_a_job_whose_runtime_answers_is_asked_first() -> None:
    (action,) = shrunk(two_too_many(runtime_status(8)), ())
    assert isinstance(action, RequestSize)
    assert (action.job[1], action.size) == ("gpt", 6)


def test_a_job_that_has_ceded_is_resized() -> None:
    (action,) = shrunk(two_too_many(runtime_status(6, wanted=6)), ())
    assert isinstance(action, ResizeJob)


def test_a_target_of_an_open_cession_is_left_to_it() -> None:
    assert shrunk(two_too_many(), {"job-uid-gpt"}) == []


def test_nothing_shrinks_where_all_quota_is_in_use() -> None:
    assert shrunk(snapshot(admitted=[admitted(size=8)]), ()) == []


def test_nothing_shrinks_while_kueue_counts_less_than_its_workloads_have() -> None:
    current = replace(two_too_many(), disagreement=frozenset({KEY}))
    assert shrunk(current, ()) == []


def test_a_job_that_never_cedes_is_resized_when_its_grace_has_passed() -> None:
    """Counted from the first request of this scheduler."""
    refusing = asked_before(two_too_many(runtime_status(8)))
    (early,) = shrunk(refusing, (), NOW + 59)
    assert isinstance(early, RequestSize)
    assert early.deadline_s == 1
    (late,) = shrunk(refusing, (), NOW + 60)
    assert isinstance(late, ResizeJob)


def test_a_runtime_that_is_silent_for_a_moment_has_its_grace_too() -> None:
    (request,) = shrunk(two_too_many(runtime=None), ())
    assert isinstance(request, RequestSize)
    silent = asked_before(two_too_many(runtime=None))
    (early,) = shrunk(silent, (), NOW + 59)
    assert isinstance(early, RequestSize)
    (late,) = shrunk(silent, (), NOW + 60)
    assert isinstance(late, ResizeJob)


def test_a_request_for_another_reason_does_not_count() -> None:
    current = two_too_many(runtime_status(8))
    asked = Observed(asked_for="claim-1", asked_at=NOW - 999)
    jobs = tuple(replace(job, observed=asked) for job in current.admitted)
    (action,) = shrunk(replace(current, admitted=jobs), ())
    assert isinstance(action, RequestSize)


def test_the_team_that_borrows_most_gives_back_first() -> None:
    jobs = [
        admitted("a", "vision", size=5, priority=10),
        admitted("b", "research", size=7, priority=90),
    ]
    actions = shrunk(snapshot(admitted=jobs), ())
    assert [(action.job[1], action.size) for action in actions] == [("b", 3)]


def test_a_lower_borrowing_limit_shrinks_no_running_job() -> None:
    """Also a limit of 0, as a hard budget sets it: what the team borrowed before does exist."""
    lowered = cohort_quota(queue("vision", 4), queue("research", 4, used=8, borrowing_limit=0))
    assert lowered.available("research", KEY) == -4
    assert shrunk(snapshot(lowered, admitted=[admitted(size=8)]), ()) == []


def test_under_a_lower_borrowing_limit_what_does_not_exist_is_given_back() -> None:
    over = cohort_quota(queue("vision", 4, used=2), queue("research", 4, used=8, borrowing_limit=0))
    (action,) = shrunk(snapshot(over, admitted=[admitted(size=8)]), ())
    assert (action.job[1], action.size) == ("gpt", 6)
