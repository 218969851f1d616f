"""Who grows: into what is idle in quota and on nodes, one at a time, and never in the way of
somebody who waits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.builders.scheduler as builders
from cede.api.resources import Resources
from scheduler.actions import Resize
from scheduler.growth import grow
from scheduler.snapshot import Running, Snapshot
from tests.builders.scheduler import GPU, KEY, NOW, queue, says, snapshot, tree, waiting


def running(
    name: str = "gpt", queue: str = "research", size: int = 8, *args: object, **more: object
) -> Running:
    """One that trains on all it has."""
    return builders.running(name, queue, size, *args, **{"status": says(size=size)} | more)  # type: ignore[arg-type]


def sizes(seen: Snapshot, promised: bool = False) -> dict[str, int]:
    return {
        act.job[1]: act.size for act in grow(seen, NOW, 60, promised) if isinstance(act, Resize)
    }


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(snapshot(running=(running(size=2),)), {"gpt": 8}, id="to its desired size"),
        pytest.param(
            snapshot(running=(running(size=2, desired_size=5),)),
            {"gpt": 5},
            id="no further than its desired size",
        ),
        pytest.param(
            snapshot(running=(running(size=2),), room=(Resources({GPU: 3}),)),
            {"gpt": 5},
            id="as far as nodes have room",
        ),
        pytest.param(
            snapshot(
                running=(running(size=2, allowed=(2, 4, 8)), running("other", "vision", 3, ()))
            ),
            {"gpt": 4},
            id="its own sizes",
        ),
        pytest.param(
            snapshot(running=(running(size=2, status=None),)),
            {},
            id="not while its runtime says nothing",
        ),
        pytest.param(
            snapshot(running=(running(size=4, status=says(size=2)),)),
            {},
            id="not before it trains on what it has",
        ),
        pytest.param(
            snapshot(running=(running(size=2, shrunk_at=NOW - 30),)), {}, id="not while it snoozes"
        ),
        pytest.param(
            snapshot(running=(running(size=2),), waiting=(waiting(),)),
            {},
            id="not while somebody waits who could use it",
        ),
        pytest.param(
            snapshot(running=(running(size=2),), waiting=(waiting(pods=99),)),
            {"gpt": 8},
            id="what can never fit is not waited for",
        ),
        pytest.param(
            snapshot(running=(running("a", size=2), running("b", size=2, parallelism=4))),
            {},
            id="one at a time",
        ),
    ],
)
def test_grow(seen: Snapshot, expected: dict[str, int]) -> None:
    assert sizes(seen) == expected


def test_nothing_grows_while_a_cession_runs() -> None:
    assert sizes(snapshot(running=(running(size=2),)), promised=True) == {}


def test_a_slice_that_is_not_admitted_is_withdrawn() -> None:
    growing = running(size=2, parallelism=8)
    # 10 s ago
    pending = waiting(
        "gpt", "research", 8, job_uid="job-uid-gpt", replaces=True, created="1970-01-01T02:46:30Z"
    )
    assert sizes(snapshot(running=(growing,), waiting=(pending,))) == {"gpt": 2}


# a busy machine is no failure
@settings(deadline=None)
@given(used=st.integers(0, 8), size=st.integers(1, 4), room=st.lists(st.integers(0, 4), max_size=4))
def test_growth_never_exceeds_free_quota_or_the_nodes(
    used: int, size: int, room: list[int]
) -> None:
    found = tree(queue("vision", used=used), queue("research", used=size))
    job = running(size=size, allowed=tuple(range(1, 13)))
    for act in grow(
        snapshot(found, running=(job,), room=tuple(Resources({GPU: n}) for n in room)),
        NOW,
        0,
        False,
    ):
        assert isinstance(act, Resize)
        assert act.size - size <= min(found.available("research", KEY), sum(room))
