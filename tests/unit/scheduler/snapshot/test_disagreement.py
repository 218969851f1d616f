"""Which counts of quota are not to be trusted, and for how long they are waited for."""

import msgspec
import pytest

from cede.api.kueue import ClusterQueue
from scheduler.snapshot.disagreement import (
    DISAGREEMENT_LIMIT_S,
    believed,
    distrusted,
    find_disagreements,
)
from scheduler.snapshot.memory import remember
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import FLAVOR, GPU, KEY, NOW, admitted, cohort_quota, gpus, queue

COUNT = ("research", KEY)


def kueue_counts(gpu: int | None) -> ClusterQueue:
    """The ClusterQueue of research."""
    resources = [{"name": GPU, "total": str(gpu), "borrowed": "0"}]
    reservation = [] if gpu is None else [{"name": FLAVOR, "resources": resources}]
    body = {"metadata": {"name": "research"}, "status": {"flavorsReservation": reservation}}
    return msgspec.convert(body, ClusterQueue)


def job(size: int, *, is_evicting: bool = False) -> AdmittedWorkload:
    return admitted(size=size, allowed_sizes=(), is_evicting=is_evicting, counted=gpus(size))


@pytest.mark.parametrize(
    ("kueue", "differs"),
    [
        pytest.param(8, False, id="the same"),
        pytest.param(4, True, id="Kueue has freed some of it already"),
        pytest.param(12, False, id="a Workload we do not know yet uses more: nothing is idle"),
        pytest.param(None, False, id="a queue that Kueue has not counted yet"),
    ],
)
def test_a_count_is_distrusted_while_kueue_counts_less(kueue: int | None, differs: bool) -> None:
    quota = cohort_quota(queue("research", 8, used=8))
    counts = find_disagreements([kueue_counts(kueue)], quota, [job(8)])
    assert counts == ({COUNT} if differs else set())


def test_more_in_use_than_there_is_is_distrusted_while_kueue_evicts_somebody() -> None:
    quota = cohort_quota(queue("research", 8, used=12))
    evicting = [job(8), job(4, is_evicting=True)]
    assert find_disagreements([kueue_counts(12)], quota, evicting) == {COUNT}
    assert not find_disagreements([kueue_counts(12)], quota, [job(8), job(4)])


def test_an_eviction_alone_is_no_contradiction() -> None:
    quota = cohort_quota(queue("research", 8, used=8))
    assert not find_disagreements([kueue_counts(8)], quota, [job(8, is_evicting=True)])


def test_a_queue_that_is_not_ours_is_not_compared() -> None:
    assert not find_disagreements([kueue_counts(0)], cohort_quota(), [job(8)])


def test_a_count_that_differs_for_long_is_believed_and_delays_nobody() -> None:
    """Then Kueue does not write its own count, or does not count as we do."""
    since = remember({}, {COUNT}, NOW)
    since = remember(since, {COUNT}, NOW + DISAGREEMENT_LIMIT_S)
    assert distrusted({COUNT}, believed(since, NOW + DISAGREEMENT_LIMIT_S - 1)) == {KEY}
    assert distrusted({COUNT}, believed(since, NOW + DISAGREEMENT_LIMIT_S)) == frozenset()


def test_a_count_that_agreed_in_between_is_waited_for_again() -> None:
    since = remember({}, {COUNT}, NOW)
    since = remember(since, set(), NOW + 1)
    since = remember(since, {COUNT}, NOW + 2)
    assert not believed(since, NOW + DISAGREEMENT_LIMIT_S + 1)
