"""Which job grows: into idle quota and free nodes, one at a time, and never before a Workload that
is pending."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.objects import rfc3339
from cede.api.resources import Resources
from elastic_runtime.contract import Status
from scheduler.free_capacity import NodeRoom
from scheduler.growth import grow
from scheduler.snapshot import Snapshot
from scheduler.workloads import AdmittedWorkload
from tests.builders.scheduler import (
    GPU,
    KEY,
    NOW,
    admitted,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)


def trains(
    name: str = "gpt",
    queue: str = "research",
    size: int = 2,
    allowed_sizes: tuple[int, ...] = tuple(range(2, 9)),
    *,
    runtime: Status | None = None,
    desired_size: int | None = None,
    parallelism: int | None = None,
    shrunk_at: float = 0.0,
) -> AdmittedWorkload:
    """A job that by default trains on all pods it has."""
    return admitted(
        name,
        queue,
        size,
        allowed_sizes,
        runtime=runtime or runtime_status(size),
        desired_size=desired_size,
        parallelism=parallelism,
        shrunk_at=shrunk_at,
    )


def sizes(snapshot: Snapshot, *, capacity_is_promised: bool = False) -> dict[str, int]:
    actions = grow(snapshot, NOW, 60, capacity_is_promised=capacity_is_promised)
    return {action.job[1]: action.size for action in actions}


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param(snapshot(admitted=[trains()]), {"gpt": 8}, id="to its desired size"),
        pytest.param(
            snapshot(admitted=[trains(desired_size=5)]), {"gpt": 5}, id="not above its desired size"
        ),
        pytest.param(
            snapshot(admitted=[trains()], nodes=(NodeRoom(free=Resources({GPU: 3})),)),
            {"gpt": 5},
            id="as far as nodes have room",
        ),
        pytest.param(
            snapshot(admitted=[trains(allowed_sizes=(2, 4, 8)), trains("other", "vision", 3, ())]),
            {"gpt": 4},
            id="to an allowed size",
        ),
        pytest.param(
            snapshot(admitted=[admitted(size=2)]), {}, id="not if its runtime does not answer"
        ),
        pytest.param(
            snapshot(admitted=[trains(size=4, runtime=runtime_status(2))]),
            {},
            id="not before it trains on all pods it has",
        ),
        pytest.param(
            snapshot(admitted=[trains(shrunk_at=NOW - 30)]), {}, id="not within the cooldown"
        ),
        pytest.param(
            snapshot(admitted=[trains()], pending=[pending()]),
            {},
            id="not while a pending Workload could use it",
        ),
        pytest.param(
            snapshot(admitted=[trains()], pending=[pending(pods=99)]),
            {"gpt": 8},
            id="although a Workload that can never fit is pending",
        ),
        pytest.param(
            snapshot(admitted=[trains("a"), trains("b", parallelism=4)]), {}, id="one at a time"
        ),
    ],
)
def test_grow(snapshot: Snapshot, expected: dict[str, int]) -> None:
    assert sizes(snapshot) == expected


def test_nothing_grows_while_capacity_is_promised() -> None:
    assert sizes(snapshot(admitted=[trains()]), capacity_is_promised=True) == {}


def test_a_scale_up_slice_that_is_not_admitted_in_time_is_withdrawn() -> None:
    growing = trains(parallelism=8)
    scale_up = pending(
        "gpt",
        "research",
        8,
        job_uid="job-uid-gpt",
        is_scale_up=True,
        created=rfc3339(NOW - 10),
    )
    assert sizes(snapshot(admitted=[growing], pending=[scale_up])) == {"gpt": 2}


# a busy machine is no failure
@settings(deadline=None)
@given(used=st.integers(0, 8), size=st.integers(1, 4), room=st.lists(st.integers(0, 4), max_size=4))
def test_growth_never_exceeds_idle_quota_or_free_nodes(
    used: int, size: int, room: list[int]
) -> None:
    quota = cohort_quota(queue("vision", used=used), queue("research", used=size))
    job = trains(size=size, allowed_sizes=tuple(range(1, 13)))
    nodes = tuple(NodeRoom(free=Resources({GPU: count})) for count in room)
    current = snapshot(quota, admitted=[job], nodes=nodes)
    for action in grow(current, NOW, 0, capacity_is_promised=False):
        assert action.size - size <= min(quota.available("research", KEY), sum(room))
