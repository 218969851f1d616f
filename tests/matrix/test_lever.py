"""The facts about Kueue and about Jobs that a take-back and a growth rest on.

A version of Kueue or Kubernetes that fails one of them cannot be supported as it is. Cede has no
part in these tests: its own behaviour on top of these facts is tested in tests/integration.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.marks import MATRIX
from tests.matrix.plain_kueue import (
    ANY,
    ENDS_LATE,
    HIGH,
    NAMESPACE,
    NEVER,
    PlainKueue,
    job,
    plain_kueue,
)

pytestmark = [pytest.mark.cluster, MATRIX]

AFTER_ANOTHER = "no longer fits after processing another workload"


@pytest.fixture(scope="module")
def queues(cluster: Any) -> Iterator[PlainKueue]:
    with plain_kueue(cluster) as kueue:
        yield kueue


@pytest.fixture
def kueue(queues: PlainKueue) -> Iterator[PlainKueue]:
    yield queues
    queues.set_strategy("own", "BestEffortFIFO")
    queues.set_preemption("own", NEVER)
    queues.delete_jobs()


def test_what_is_released_step_by_step_stays_for_the_head_of_a_strict_queue(
    kueue: PlainKueue,
) -> None:
    kueue.submit(job("lent", "first", 6, elastic=True), job("lent", "second", 6, elastic=True))
    kueue.wait_for_admission("first", "second")
    kueue.submit(job("own", "claim", 8), job("poor", "early", 1))
    kueue.until(lambda: kueue.is_refused("claim"), "the claim to be pending")
    # on a live queue, which Kueue reads again at once
    kueue.set_strategy("own", "StrictFIFO")
    kueue.resize("first", 2)
    kueue.wait_for_use("lent", 8)
    # what is released before Kueue has tried the head in its strict queue may be taken
    # (docs/decisions/0012-a-guard-keeps-what-kueue-does-not.md)
    kueue.until(lambda: kueue.is_refused("early", AFTER_ANOTHER), "the head to be tried")
    # another queue than that of the early job, behind which Kueue would not try it
    kueue.submit(job("lent", "late", 1))
    kueue.until(lambda: kueue.is_refused("late"), "the late job to be pending")
    assert not kueue.is_admitted("early")
    kueue.resize("second", 2)
    kueue.wait_for_admission("claim")
    assert [name for name in ("early", "late") if kueue.is_admitted(name)] == []
    # nothing but the claim kept them out
    kueue.delete_job("claim")
    kueue.wait_for_admission("early", "late")


def test_what_is_released_stays_for_the_head_also_before_jobs_of_its_own_queue(
    kueue: PlainKueue,
) -> None:
    kueue.submit(job("lent", "first", 6, elastic=True), job("lent", "second", 6, elastic=True))
    kueue.wait_for_admission("first", "second")
    kueue.submit(job("own", "claim", 8))
    kueue.wait_until_later_than("claim")
    kueue.submit(job("own", "behind", 1))
    kueue.until(lambda: kueue.is_refused("claim") and kueue.is_refused("behind"), "both to wait")
    kueue.set_strategy("own", "StrictFIFO")
    kueue.resize("first", 2)
    kueue.until(lambda: kueue.is_refused("claim", "4 more needed"), "the head to be tried again")
    assert not kueue.is_admitted("behind")
    kueue.resize("second", 2)
    kueue.wait_for_admission("claim")
    assert not kueue.is_admitted("behind")
    kueue.delete_job("claim")
    kueue.wait_for_admission("behind")


def test_the_head_of_a_strict_queue_is_the_highest_priority_and_then_the_oldest(
    kueue: PlainKueue,
) -> None:
    kueue.submit(job("lent", "blocker", 12, elastic=True))
    kueue.wait_for_admission("blocker")
    for name in ("oldest", "second"):
        kueue.submit(job("own", name, 8))
        kueue.wait_until_later_than(name)
    kueue.submit(job("own", "high", 8, priority=HIGH))
    # the second one needs what the oldest needs, so Kueue need not try it
    for name in ("oldest", "high"):
        kueue.until(partial(kueue.is_refused, name), f"{name} to wait")
    kueue.until(lambda: bool(kueue.workloads("second")), "the second one to be there")
    kueue.set_strategy("own", "StrictFIFO")
    kueue.resize("blocker", 4)
    for head, *others in (("high", "oldest", "second"), ("oldest", "second")):
        kueue.wait_for_admission(head)
        assert [name for name in others if kueue.is_admitted(name)] == []
        kueue.delete_job(head)
    kueue.wait_for_admission("second")


def test_kueue_stops_nobody_until_it_is_allowed_to_and_then_whole_jobs_at_once(
    kueue: PlainKueue,
) -> None:
    kueue.submit(job("lent", "small", 2), job("lent", "large", 10))
    kueue.wait_for_admission("small", "large")
    kueue.submit(job("own", "claim", 8))
    kueue.set_strategy("own", "StrictFIFO")
    kueue.until(lambda: kueue.is_refused("claim"), "the claim to be pending")
    assert kueue.is_admitted("small")
    assert kueue.is_admitted("large")
    kueue.set_preemption("own", ANY)
    kueue.wait_for_admission("claim")
    kueue.until(lambda: kueue.get_job("large")["spec"]["suspend"], "the large job to be stopped")
    assert kueue.is_preempted("large")
    assert kueue.is_admitted("small")


def test_a_shrink_keeps_the_lowest_indexes_counts_no_failure_and_frees_quota(
    kueue: PlainKueue,
) -> None:
    kueue.submit(job("own", "elastic", 6, elastic=True))
    before = kueue.wait_for_pods("elastic", 6)
    kueue.resize("elastic", 2)
    after = kueue.wait_for_pods("elastic", 2)
    kueue.wait_for_use("own", 2)
    assert after == {index: before[index] for index in (0, 1)}
    assert not kueue.get_job("elastic")["status"].get("failed")


def test_lowering_the_parallelism_alone_may_stop_the_lowest_index(kueue: PlainKueue) -> None:
    """The youngest pod ends, here the one that replaced the first."""
    kueue.submit(job("own", "elastic", 4, elastic=True, failures=3))
    before = kueue.wait_for_pods("elastic", 4)
    kueue.cluster.kubectl(
        "delete", "pod", "-n", NAMESPACE, kueue.pods("elastic")[0]["metadata"]["name"]
    )
    kueue.until(
        lambda: kueue.running("elastic").get(0) not in (None, before[0]), "the first to be replaced"
    )
    kueue.set_parallelism("elastic", 3)
    kueue.until(lambda: sorted(kueue.running("elastic")) == [1, 2, 3], "the first pod to end")


@pytest.mark.parametrize(
    "pods", [pytest.param(4, id="after a resize"), pytest.param(0, id="from the start")]
)
def test_a_job_of_no_completions_is_complete_and_never_runs_again(
    kueue: PlainKueue, pods: int
) -> None:
    kueue.submit(job("own", "elastic", pods, elastic=True))
    if pods:
        kueue.wait_for_pods("elastic", pods)
        kueue.resize("elastic", 0)
    kueue.until(lambda: kueue.is_complete("elastic"), "the job to be complete")
    kueue.resize("elastic", 2)
    # what comes later runs meanwhile
    kueue.submit(job("own", "later", 1))
    kueue.wait_for_pods("later", 1)
    assert not kueue.running("elastic")
    assert kueue.is_complete("elastic")


def test_a_job_of_no_parallelism_releases_its_quota_and_runs_again(kueue: PlainKueue) -> None:
    kueue.submit(job("own", "elastic", 4, elastic=True))
    kueue.wait_for_pods("elastic", 4)
    kueue.set_parallelism("elastic", 0)
    kueue.wait_for_pods("elastic", 0)
    kueue.wait_for_use("own", 0)
    assert not kueue.is_complete("elastic")
    kueue.set_parallelism("elastic", 4)
    kueue.wait_for_pods("elastic", 4)
    kueue.wait_for_use("own", 4)


def test_quota_is_free_before_the_pods_have_ended(kueue: PlainKueue) -> None:
    """So the pods of the preemptor may wait for a node."""
    kueue.submit(job("own", "elastic", 8, elastic=True, finalizers=[ENDS_LATE]))
    try:
        kueue.wait_for_pods("elastic", 8)
        kueue.submit(job("own", "claim", 6))
        kueue.until(lambda: kueue.is_refused("claim"), "the claim to be pending")
        kueue.resize("elastic", 2)
        kueue.wait_for_admission("claim")
        assert kueue.ending("elastic") == {2, 3, 4, 5, 6, 7}
    finally:
        kueue.let_pods_end("elastic")


def test_a_growth_stops_no_pod_and_counts_once(kueue: PlainKueue) -> None:
    kueue.submit(job("own", "elastic", 2, elastic=True))
    before = kueue.wait_for_pods("elastic", 2)
    kueue.resize("elastic", 6)
    after = kueue.wait_for_pods("elastic", 6)
    kueue.wait_for_use("own", 6)
    assert {index: after[index] for index in before} == before
    assert len(kueue.workloads("elastic")) == 1


def test_a_growth_that_does_not_fit_stops_nobody_and_can_be_withdrawn(kueue: PlainKueue) -> None:
    kueue.submit(job("own", "elastic", 4, elastic=True), job("lent", "other", 6))
    before = kueue.wait_for_pods("elastic", 4)
    kueue.wait_for_admission("other")
    kueue.resize("elastic", 8)
    kueue.until(lambda: kueue.is_refused("elastic"), "the growth to be pending")
    assert kueue.wait_for_pods("elastic", 4) == before
    assert kueue.is_admitted("other")
    kueue.resize("elastic", 4)
    kueue.until(
        lambda: not kueue.is_refused("elastic") and kueue.is_admitted("elastic"),
        "the growth to be withdrawn",
    )
    assert len(kueue.workloads("elastic")) == 1
    assert kueue.wait_for_pods("elastic", 4) == before
    kueue.wait_for_use("own", 4)


def test_a_workload_that_is_not_active_ends_alone_and_comes_back(kueue: PlainKueue) -> None:
    kueue.submit(job("lent", "stopped", 4), job("lent", "other", 2))
    kueue.wait_for_admission("stopped", "other")
    [workload] = kueue.workloads("stopped")
    kueue.patch("workload", workload["metadata"]["name"], {"spec": {"active": False}})
    kueue.wait_for_use("lent", 2)
    assert kueue.get_job("stopped")["spec"]["suspend"]
    assert kueue.is_admitted("other")
    kueue.patch("workload", workload["metadata"]["name"], {"spec": {"active": True}})
    kueue.wait_for_pods("stopped", 4)
    assert not kueue.get_job("stopped")["status"].get("failed")
