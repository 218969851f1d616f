"""The model's quota is that of scheduler.quota.cohort, which is compared with Kueue itself."""

import random
from collections import Counter

import pytest

from scheduler.simulate.objects import Queue, TeamQuota
from scheduler.simulate.picture import KEY, quota_of
from scheduler.simulate.quota import Quota
from tests.builders.scheduler import used_more


def random_queues(seed: int) -> dict[str, Queue]:
    choose = random.Random(seed)  # noqa: S311
    queues = {}
    for name in "abcd":
        limits = [choose.choice((None, None, 0, 2, 5)) for _ in range(2)]
        quota = TeamQuota(name, choose.randint(0, 8), choose.choice((0.5, 1.0, 2.0)), *limits)
        queues[name] = Queue(quota, usage=choose.randint(0, 9))
    return queues


@pytest.mark.parametrize("seed", range(50))
def test_the_model_counts_as_the_scheduler_does(seed: int) -> None:
    queues = random_queues(seed)
    for shares in (True, False):
        model = Quota(queues, shares=shares)
        model.add("a", 2)
        cohort = used_more(quota_of(queues, 0.0, shares=shares), "a", Counter({KEY: 2}))
        for name in queues:
            assert model.available(name) == cohort.available(name, KEY)
            assert model.potential(name) == cohort.potential(name, KEY)
            if shares:
                assert model.share(name, 0) == pytest.approx(cohort.share(name)[1])


def test_what_is_used_beyond_the_quota_is_over() -> None:
    queues = {"a": Queue(TeamQuota("a", 4), usage=6), "b": Queue(TeamQuota("b", 4), usage=3)}
    assert Quota(queues, shares=True).over() == 1
    assert Quota(queues, shares=False).over() == 2
