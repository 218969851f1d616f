"""Which queues count, and what they own."""

import msgspec
import pytest

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Cohort
from cede.api.reasons import BudgetReason
from scheduler.quota.cohort import ResourceGroup, ResourceQuota
from scheduler.snapshot.cluster_quota import read_cohort_quota
from tests.builders.kueue_objects import cluster_queue
from tests.builders.scheduler import FLAVOR, GPU, KEY, admitted, gpus


def test_only_queues_of_our_cohort_count_and_guests_are_not_managed() -> None:
    queues = [
        cluster_queue("research"),
        cluster_queue("theirs", "other", {}),
        cluster_queue("guest", labels={}),
    ]
    quota = read_cohort_quota(queues, [], [], [])
    managed = {name: queue.managed for name, queue in quota.queues.items()}
    assert managed == {"research": True, "guest": False}


def test_a_queue_owns_its_nominal_quota_and_uses_what_is_admitted() -> None:
    quota = read_cohort_quota([cluster_queue("research")], [], [], [admitted(size=3)])
    queue = quota.queues["research"]
    assert queue.quotas == {KEY: ResourceQuota(4, None, None)}
    assert queue.groups == (ResourceGroup((GPU,), (FLAVOR,)),)
    assert (queue.usage, queue.weight) == (gpus(3), 1.0)


def test_the_cohort_may_own_quota_itself() -> None:
    flavor = {"name": FLAVOR, "resources": [{"name": GPU, "nominalQuota": "2"}]}
    spec = {"resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}]}
    cohorts = [
        msgspec.convert({"metadata": {"name": name}, "spec": spec}, Cohort)
        for name in ("cede", "other")
    ]
    assert read_cohort_quota([], cohorts, [], []).cohort_nominal == gpus(2)


@pytest.mark.parametrize("reason", [BudgetReason.HARD_BUDGET_USED, BudgetReason.SOFT_BUDGET_USED])
def test_a_team_is_over_its_budget_when_the_hard_one_is_used(reason: BudgetReason) -> None:
    budget = {"type": names.WITHIN_BUDGET, "status": "False", "reason": reason}
    allocation = ComputeAllocation.model_validate(
        {
            "metadata": {"name": "research"},
            "spec": {"quotas": [{"instanceType": FLAVOR, "count": 1}]},
            "status": {"conditions": [budget]},
        }
    )
    quota = read_cohort_quota([cluster_queue("research")], [], [allocation], [])
    is_used = reason is BudgetReason.HARD_BUDGET_USED
    assert quota.queues["research"].is_over_budget is is_used


def test_a_team_may_forbid_preemption_among_its_own_jobs() -> None:
    allocation = ComputeAllocation.model_validate(
        {
            "metadata": {"name": "research"},
            "spec": {
                "quotas": [{"instanceType": FLAVOR, "count": 1}],
                "preemptOwnTasks": "Never",
            },
        }
    )
    queues = [cluster_queue("research"), cluster_queue("vision")]
    quota = read_cohort_quota(queues, [], [allocation], [])
    preempts = {name: queue.preempts_own_jobs for name, queue in quota.queues.items()}
    assert preempts == {"research": False, "vision": True}
