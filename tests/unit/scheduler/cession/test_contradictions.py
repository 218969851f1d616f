"""A snapshot that contradicts Kueue's own count is no ground to force anything on a job."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from elastic_runtime.contract import Status
from scheduler.actions import ResizeJob, SetWorkloadActive, UpdateCession
from scheduler.cession.advance import advance
from scheduler.snapshot.disagreement import DISAGREEMENT_LIMIT_S
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import KEY, NOW, admitted, cession, pending, runtime_status, snapshot

CEDED = runtime_status(4, wanted=4, cession="c-1", step=17)


def contradicting(runtime: Status | None = None, allowed_sizes: tuple[int, ...] = ()) -> Snapshot:
    """The target still has all eight by our count, and fewer by Kueue's."""
    job = admitted(runtime=runtime, allowed_sizes=allowed_sizes)
    current = snapshot(admitted=[job], pending=[pending()], is_reserved=True)
    counts = frozenset({("research", KEY)})
    return replace(current, disagreement=frozenset({KEY}), disagreements=counts)


def stopping(ready_for_s: float) -> Cession:
    """The job cannot be asked, so it has been ready since it was first looked at."""
    requested = rfc3339(NOW - ready_for_s, micro=True)
    target = {"uid": "job-uid-gpt", "requestedTime": requested, "stopped": True}
    return cession("Pending", 0, "Stop", targets=[target])


def shrinking(ready_for_s: float) -> Cession:
    """The job lets its grace period of 30 s pass."""
    requested = rfc3339(NOW - 30 - ready_for_s, micro=True)
    return cession("Asked", targets=[{"uid": "job-uid-gpt", "requestedTime": requested}])


def is_forced(record: Cession, current: Snapshot) -> bool:
    actions = advance(record, current, NOW).actions
    return any(isinstance(action, ResizeJob | SetWorkloadActive) for action in actions)


CASES = pytest.mark.parametrize(
    ("record_of", "sizes"),
    [
        pytest.param(stopping, (), id="a stop"),
        pytest.param(shrinking, (2, 4, 8), id="a job that has not ceded"),
    ],
)


@CASES
def test_nothing_is_forced_on_a_job_until_both_counts_agree(
    record_of: Callable[[float], Cession], sizes: tuple[int, ...]
) -> None:
    record = record_of(1)
    assert not is_forced(record, contradicting(None, sizes))
    agreeing = replace(contradicting(None, sizes), disagreement=frozenset())
    assert is_forced(record, agreeing)


@CASES
def test_a_contradiction_spares_no_job_for_longer_than_it_is_waited_for(
    record_of: Callable[[float], Cession], sizes: tuple[int, ...]
) -> None:
    """However often both agree in between. Only the time in which this scheduler led counts."""
    record = record_of(DISAGREEMENT_LIMIT_S + 1)
    current = contradicting(None, sizes)
    assert is_forced(record, current)
    assert not is_forced(record, replace(current, led_since=NOW - 29))


def test_the_reason_of_the_wait_is_written() -> None:
    actions = advance(stopping(1), contradicting(), NOW).actions
    (update,) = [action for action in actions if isinstance(action, UpdateCession)]
    assert "in use in research differs from Kueue's own count" in update.status.message


def test_a_job_that_has_ceded_is_resized_all_the_same() -> None:
    """It loses nothing."""
    assert is_forced(cession("Asked"), contradicting(CEDED, (2, 4, 8)))


def test_what_is_released_together_waits_together() -> None:
    """One target has ceded, and another one would be stopped."""
    record = stopping(1)
    other = {"uid": "job-uid-bert", "job": "bert", "how": "Shrink", "toSize": 4}
    target = record.spec.targets[0]
    record.spec.targets.append(target.model_copy(update=other))
    burst = record.model_copy(update={"spec": record.spec.model_copy(update={"reserved": False})})
    current = contradicting()
    jobs = (*current.admitted, admitted("bert", runtime=CEDED))
    assert not is_forced(burst, replace(current, admitted=jobs))


def test_a_contradiction_about_another_flavor_delays_nobody() -> None:
    other = frozenset({("h100", KEY[1])})
    assert is_forced(stopping(1), replace(contradicting(), disagreement=other))
