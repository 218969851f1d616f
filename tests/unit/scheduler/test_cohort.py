"""Kueue's arithmetic: what a queue may use, and who borrows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.scheduler import KEY, gpus, queue, tree


@pytest.mark.parametrize(
    ("queues", "own", "expected"),
    [
        pytest.param(
            [queue("a", 4), queue("b", 4)], 0, 8, id="all of the cohort when nobody uses it"
        ),
        pytest.param(
            [queue("a", 4), queue("b", 4, used=8)], 0, 0, id="nothing while another borrows it"
        ),
        pytest.param(
            [queue("a", 4, used=4, borrowing=2), queue("b", 4)],
            0,
            2,
            id="no more than it may borrow",
        ),
        pytest.param([queue("a", 4), queue("b", 4, lending=1)], 0, 5, id="only what others lend"),
        pytest.param(
            [queue("a", 4, lending=0), queue("b", 4, used=4)],
            0,
            4,
            id="what is never lent is always there",
        ),
        pytest.param([queue("a", 4), queue("b", 4)], 3, 11, id="what the cohort itself owns"),
    ],
)
def test_available(queues: list[object], own: int, expected: int) -> None:
    assert tree(*queues, own=own).available("a", KEY) == expected  # type: ignore[arg-type]


def test_a_queue_borrows_when_it_uses_more_than_its_own() -> None:
    assert queue("a", 4, used=5).borrows(gpus(1))
    assert not queue("a", 4, used=4).borrows(gpus(1))


quotas = st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))


# a busy machine is no failure
@settings(deadline=None)
@given(limits=st.lists(quotas, min_size=1, max_size=4), own=st.integers(0, 5), data=st.data())
def test_whatever_is_admitted_by_it_the_cohort_never_holds_more_than_there_is(
    limits: list[tuple[int, int | None, int | None]], own: int, data: st.DataObject
) -> None:
    queues = [
        queue(str(i), n, 0, borrowing, None if lending is None else min(lending, n))
        for i, (n, borrowing, lending) in enumerate(limits)
    ]
    found = tree(*queues, own=own)
    for _ in range(10):
        name = data.draw(st.sampled_from(sorted(found.queues)))
        free = found.available(name, KEY)
        assert 0 <= free <= found.potential(name, KEY)
        found = found.using(name, gpus(data.draw(st.integers(0, free))))
    assert sum(q.usage[KEY] for q in found.queues.values()) <= own + sum(n for n, _, _ in limits)
