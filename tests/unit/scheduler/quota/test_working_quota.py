"""The working copy agrees with a quota that is copied, whatever trials change in it."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.quota.cohort import CohortQuota
from scheduler.quota.working_quota import WorkingQuota
from tests.builders.scheduler import KEY, cohort_quota, gpus, queue, used_more

limits = st.none() | st.integers(0, 8)
shapes = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 10), limits, limits), min_size=1, max_size=4
)
changes = st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 6)), max_size=8)


def quota_of(shapes: list[tuple[int, int, int | None, int | None]]) -> CohortQuota:
    queues = [queue(f"q{i}", *shape) for i, shape in enumerate(shapes)]
    return cohort_quota(*queues, cohort_nominal=2)


@settings(deadline=None)
@given(shapes=shapes, changes=changes)
def test_a_changed_working_copy_equals_a_changed_quota(
    shapes: list[tuple[int, int, int | None, int | None]], changes: list[tuple[int, int]]
) -> None:
    frozen = quota_of(shapes)
    working = WorkingQuota(frozen)
    for number, amount in changes:
        name = f"q{number % len(shapes)}"
        working.add(name, gpus(amount))
        frozen = used_more(frozen, name, gpus(amount))
        for other in frozen.queues:
            assert working.available(other, KEY) == frozen.available(other, KEY)
            assert working.fits(other, gpus(3)) == frozen.fits(other, gpus(3))
            assert working.missing(other, gpus(3)) == frozen.missing(other, gpus(3))
            assert working.borrows(other, [KEY]) == frozen.borrows(other, [KEY])
            assert working.owns_with(other, gpus(3)) == frozen.owns_with(other, gpus(3))
            assert working.share(other) == frozen.share(other)


def test_the_quota_itself_does_not_change() -> None:
    frozen = cohort_quota(queue("a", used=2), queue("b"))
    WorkingQuota(frozen).remove("a", gpus(2))
    assert frozen.queues["a"].usage == gpus(2)


def test_the_share_with_a_request_leaves_no_trace() -> None:
    working = WorkingQuota(cohort_quota(queue("a", used=4), queue("b")))
    assert working.share_with("a", gpus(2)) == (False, 0.25)
    assert working.used("a", KEY) == 4


def test_weight_0_that_borrows_exceeds_every_other_share() -> None:
    weightless = replace(queue("a", used=5), weight=0.0)
    working = WorkingQuota(cohort_quota(weightless, queue("b", used=9)))
    assert working.share("a") > working.share("b")
    working.remove("a", gpus(1))
    assert working.share("a") < working.share("b")


def test_a_frozen_copy_is_the_quota_as_it_was_then() -> None:
    original = cohort_quota(queue("a", used=2), queue("b"))
    working = WorkingQuota(original)
    assert working.frozen() is original
    working.add("a", gpus(3))
    frozen = working.frozen()
    working.add("a", gpus(3))
    assert frozen.used("a", KEY) == 5
    assert frozen.available("b", KEY) == 3
