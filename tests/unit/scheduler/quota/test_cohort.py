"""Kueue's arithmetic: what a queue may use, and which queue borrows."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.quota.cohort import NO_SHARE, Queue, ResourceQuota
from tests.builders.scheduler import GPU, KEY, cohort_quota, gpus, queue, used_more


@pytest.mark.parametrize(
    ("queues", "cohort_nominal", "expected"),
    [
        pytest.param([queue("a", 4), queue("b", 4)], 0, 8, id="the whole idle cohort"),
        pytest.param(
            [queue("a", 4), queue("b", 4, used=8)], 0, 0, id="nothing while another borrows it"
        ),
        pytest.param(
            [queue("a", 4, used=4, borrowing_limit=2), queue("b", 4)],
            0,
            2,
            id="no more than the borrowing limit",
        ),
        pytest.param(
            [queue("a", 4), queue("b", 4, lending_limit=1)], 0, 5, id="only what others lend"
        ),
        pytest.param(
            [queue("a", 4, lending_limit=0), queue("b", 4, used=4)],
            0,
            4,
            id="all of what is never lent",
        ),
        pytest.param([queue("a", 4), queue("b", 4)], 3, 11, id="what the cohort itself owns"),
    ],
)
def test_available(queues: list[Queue], cohort_nominal: int, expected: int) -> None:
    quota = cohort_quota(*queues, cohort_nominal=cohort_nominal)
    assert quota.available("a", KEY) == expected


def test_a_queue_borrows_when_it_uses_more_than_its_nominal_quota() -> None:
    quota = cohort_quota(queue("a", 4, used=5), queue("b", 4, used=4))
    assert quota.borrows("a", [KEY])
    assert not quota.borrows("b", [KEY])


def test_the_share_is_what_a_queue_borrows_of_what_is_lendable() -> None:
    quota = cohort_quota(queue("a", 4, used=6), queue("b", 4, used=2))
    assert quota.share("a") == (False, 0.25)
    assert quota.share("b") == NO_SHARE


def test_the_share_counts_a_resource_on_all_flavors_of_the_cohort() -> None:
    """Kueue: calculateLendable in pkg/cache/scheduler/fair_sharing.go."""
    other = replace(queue("b"), quotas={("h100", GPU): ResourceQuota(12)})
    quota = cohort_quota(queue("a", 4, used=6), other)
    assert quota.share("a") == (False, 2 / 16)


def test_who_shares_with_nobody_has_no_share() -> None:
    alone = replace(queue("a", 4, used=6), cohort="")
    assert cohort_quota(alone).share("a") == NO_SHARE


quotas = st.tuples(st.integers(0, 9), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))


# a busy machine is no failure
@settings(deadline=None)
@given(
    limits=st.lists(quotas, min_size=1, max_size=4),
    cohort_nominal=st.integers(0, 5),
    data=st.data(),
)
def test_the_cohort_never_admits_more_than_exists(
    limits: list[tuple[int, int | None, int | None]], cohort_nominal: int, data: st.DataObject
) -> None:
    queues = [
        queue(str(i), nominal, 0, borrowing, None if lending is None else min(lending, nominal))
        for i, (nominal, borrowing, lending) in enumerate(limits)
    ]
    quota = cohort_quota(*queues, cohort_nominal=cohort_nominal)
    for _ in range(10):
        name = data.draw(st.sampled_from(sorted(quota.queues)))
        available = quota.available(name, KEY)
        assert 0 <= available <= quota.potential(name, KEY)
        quota = used_more(quota, name, gpus(data.draw(st.integers(0, available))))
    used = sum(queue.usage[KEY] for queue in quota.queues.values())
    assert used <= cohort_nominal + sum(nominal for nominal, _, _ in limits)
