"""An elastic job that misses pods shrinks before Kueue evicts it whole."""

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.contract import State, Status
from scheduler.actions import RequestSize, ResizeJob
from scheduler.resizing.missing_pods import REQUEST_NAME, shrink_missing
from scheduler.snapshot.kueue_timeouts import KueueTimeouts
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import NOW, admitted, runtime_status, snapshot

MINUTE = KueueTimeouts(start_s=300, recovery_s=60)
HOUR = KueueTimeouts(start_s=300, recovery_s=3600)
NEVER = KueueTimeouts(start_s=300, recovery_s=0)


def misses(
    missing: tuple[int, ...] = (1,),
    unplaced: int = 0,
    seconds: float = 40,
    *,
    size: int = 4,
    allowed_sizes: tuple[int, ...] = (1, 2, 3, 4),
    is_recovering: bool = True,
    parallelism: int | None = None,
    active: bool = True,
    runtime: Status | None = None,
    node: str = "node-1",
) -> AdmittedWorkload:
    """A job of four pods on a node that trains on without the missing ones."""
    return admitted(
        node_of_index={index: node for index in range(size) if index not in missing},
        size=size,
        allowed_sizes=allowed_sizes,
        parallelism=parallelism,
        missing_pods=missing,
        unplaced_pods=unplaced,
        unready_since=NOW - seconds,
        is_recovering=is_recovering,
        active=active,
        runtime=runtime or runtime_status(size - len(missing), wanted=size),
    )


def actions(
    job: AdmittedWorkload, timeouts: KueueTimeouts | None = None, targets: Collection[str] = ()
) -> list[RequestSize | ResizeJob]:
    return list(shrink_missing(snapshot(admitted=[job], timeouts=timeouts or MINUTE), targets, NOW))


@pytest.mark.parametrize(
    ("job", "timeouts", "expected"),
    [
        pytest.param(misses(unplaced=1), HOUR, [3], id="no room for a pod: one pod less"),
        pytest.param(misses((1, 3), 1), HOUR, [], id="the pod that leaves is missing itself"),
        pytest.param(misses((0,), 1), HOUR, [3], id="no room for pod 0: the others answer"),
        pytest.param(misses((3,), 1), HOUR, [3], id="the highest pod: no other has to leave"),
        pytest.param(misses(unplaced=1, node="cordoned"), HOUR, [], id="no new pod fits there"),
        pytest.param(misses(unplaced=1, allowed_sizes=(2, 4)), HOUR, [2], id="only allowed sizes"),
        pytest.param(misses(unplaced=1, allowed_sizes=(4,)), HOUR, [], id="no smaller size"),
        pytest.param(misses(unplaced=1, seconds=20), HOUR, [], id="it may be placed soon"),
        pytest.param(misses(unplaced=1, seconds=40), NEVER, [3], id="also if Kueue never evicts"),
        pytest.param(
            misses(unplaced=1, seconds=6),
            KueueTimeouts(recovery_s=10),
            [3],
            id="sooner if Kueue evicts soon",
        ),
        pytest.param(misses((2,)), MINUTE, [2], id="a lost pod, and Kueue evicts soon"),
        pytest.param(misses((1, 3)), MINUTE, [1], id="below the lowest lost pod"),
        pytest.param(misses((2,), seconds=20), MINUTE, [], id="a lost pod may be back soon"),
        pytest.param(misses((2,), seconds=900), HOUR, [], id="and Kueue is patient"),
        pytest.param(misses((2,), seconds=9000), NEVER, [], id="and Kueue never evicts"),
        pytest.param(misses((0,)), MINUTE, [], id="pod 0 is lost: no size keeps it"),
        pytest.param(
            misses((2, 3), seconds=160, is_recovering=False),
            MINUTE,
            [2],
            id="pods of a growth that never started",
        ),
        pytest.param(misses((2,), seconds=40, is_recovering=False), MINUTE, [], id="they start"),
        pytest.param(misses((), seconds=40), MINUTE, [], id="none is missing"),
        pytest.param(misses((2,), parallelism=6), MINUTE, [], id="it grows"),
        pytest.param(misses((2,), active=False), MINUTE, [], id="it is stopped anyway"),
        pytest.param(
            misses((2,), runtime=runtime_status(4)), MINUTE, [], id="its runtime misses nobody"
        ),
    ],
)
def test_the_size_without_the_missing_pods(
    job: AdmittedWorkload, timeouts: KueueTimeouts, expected: list[int]
) -> None:
    assert [action.size for action in actions(job, timeouts)] == expected


def test_the_runtime_is_asked_before_the_job_is_resized() -> None:
    (request,) = actions(misses(unplaced=1))
    assert isinstance(request, RequestSize)
    assert request.cession == REQUEST_NAME
    ceded = runtime_status(2, wanted=3, cession=REQUEST_NAME)
    (resize,) = actions(misses(unplaced=1, runtime=ceded))
    assert isinstance(resize, ResizeJob)
    assert resize.shrinks
    assert "no node has room for 1 of its pods" in resize.why


def test_a_runtime_that_does_not_cede_is_not_waited_for_until_kueue_evicts_the_job() -> None:
    stuck = runtime_status(3, wanted=2, state=State.RESIZING)
    assert isinstance(actions(misses((2,), seconds=40, runtime=stuck))[0], RequestSize)
    assert isinstance(actions(misses((2,), seconds=50, runtime=stuck))[0], ResizeJob)


def test_pod_0_without_room_gets_the_place_of_the_highest_pod() -> None:
    """Nobody can be asked: of two pods, for example, the other one waits for pod 0."""
    job = admitted(
        size=4,
        allowed_sizes=(1, 2, 3, 4),
        addresses=(),
        node_of_index={1: "node-1", 2: "node-1", 3: "node-1"},
        missing_pods=(0,),
        unplaced_pods=1,
        unready_since=NOW - 40,
    )
    (resize,) = actions(job)
    assert isinstance(resize, ResizeJob)
    assert resize.size == 3


def test_a_target_of_an_open_cession_is_left_to_it() -> None:
    job = misses((2,))
    assert actions(job, targets=[job.identity]) == []


@given(
    missing=st.sets(st.integers(0, 7), max_size=8),
    unplaced=st.integers(0, 8),
    allowed=st.sets(st.integers(1, 8), min_size=1),
    seconds=st.floats(0, 1e5),
    recovery_s=st.sampled_from([0.0, 10.0, 60.0, 900.0]),
)
def test_a_job_only_shrinks_to_an_allowed_size_and_only_if_it_misses_pods(
    missing: set[int], unplaced: int, allowed: set[int], seconds: float, recovery_s: float
) -> None:
    sizes = tuple(sorted(allowed | {8}))
    lost = tuple(sorted(missing))
    job = misses(lost, min(unplaced, len(lost)), seconds, size=8, allowed_sizes=sizes)
    for action in actions(job, KueueTimeouts(recovery_s=recovery_s)):
        assert missing
        assert action.size in sizes[:-1]
