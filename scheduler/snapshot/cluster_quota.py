"""PURE. Reads the CohortQuota from ClusterQueues, Cohorts, allocations and admitted Workloads."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace

from cede.api import names, private_quota
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import ClusterQueue, Cohort
from cede.api.kueue import ResourceGroup as KueueResourceGroup
from cede.api.objects import condition
from cede.api.private_quota import PrivateQuota
from cede.api.resources import FlavorResource, Quota, amount
from scheduler.quota.cohort import CohortQuota, Queue, ResourceGroup, ResourceQuota
from scheduler.snapshot.memory import Kept
from scheduler.snapshot.workloads import AdmittedWorkload


def read_cohort_quota(
    queues: Iterable[ClusterQueue],
    cohorts: Iterable[Cohort],
    allocations: Collection[ComputeAllocation],
    admitted: Iterable[AdmittedWorkload],
    kept: Kept[str, Queue] | None = None,
) -> CohortQuota:
    """The queues of our Cohort, and those that the quota_controller made."""
    kept = kept or Kept()
    usages: dict[str, list[Quota]] = defaultdict(list)
    for workload in admitted:
        usages[workload.queue].append(workload.usage)
    over_budget = {entry.metadata.name for entry in allocations if entry.used_budget}
    never_preempt_own = {
        allocation.metadata.name
        for allocation in allocations
        if allocation.spec.preemptOwnTasks == "Never"
    }
    ours = dict[str, Queue]()
    for queue in queues:
        if is_guard(queue):
            continue
        if queue.spec.cohortName == names.COHORT or _is_managed(queue):
            name = queue.metadata.name
            preempts_own = name not in never_preempt_own
            facts = (queue, preempts_own, name in over_budget)
            ours[name] = kept.get(name, _read_queue, *facts, *usages[name])
    return CohortQuota(queues=ours, cohort_nominal=_cohort_nominal(cohorts))


def is_guard(queue: ClusterQueue) -> bool:
    return bool(queue.metadata.labels.get(names.GUARD))


def is_observed(queue: ClusterQueue) -> bool:
    """Kueue writes the condition after it has put the spec into its cache (Kueue:
    pkg/controller/core/clusterqueue_controller.go)."""
    active = condition(queue.status.conditions, names.ACTIVE)
    return active is not None and active.observedGeneration >= queue.metadata.generation


def _cohort_nominal(cohorts: Iterable[Cohort]) -> Quota:
    nominal: Quota = Counter()
    groups = [
        group
        for cohort in cohorts
        if cohort.metadata.name == names.COHORT
        for group in cohort.spec.resourceGroups
    ]
    for group in groups:
        for flavor in group.flavors:
            for resource in flavor.resources:
                nominal[flavor.name, resource.name] += amount(resource.name, resource.nominalQuota)
    return nominal


def _is_managed(queue: ClusterQueue) -> bool:
    return queue.metadata.labels.get(names.MANAGED_BY) == names.MANAGED_BY_CEDE


def _read_queue(
    queue: ClusterQueue, preempts_own_jobs: bool, is_over_budget: bool, *usages: Quota
) -> Queue:
    usage: Quota = Counter()
    for used in usages:
        usage.update(used)
    private = private_quota.parse(queue.metadata.annotations.get(names.PRIVATE_QUOTA, ""))
    weight = queue.spec.fairSharing.weight if queue.spec.fairSharing else 1
    groups = list[ResourceGroup]()
    for group in queue.spec.resourceGroups:
        flavors = tuple(flavor.name for flavor in group.flavors)
        groups.append(ResourceGroup(resources=group.coveredResources, flavors=flavors))
    return Queue(
        name=queue.metadata.name,
        cohort=queue.spec.cohortName,
        quotas=as_before(read_quotas(queue.spec.resourceGroups), private),
        usage=usage,
        strategy=queue.spec.queueingStrategy,
        is_observed=is_observed(queue),
        version=queue.metadata.resourceVersion,
        # `amount` counts cpu in milli, and a weight may be a fraction such as 500m
        weight=amount("cpu", weight) / 1000,
        preempts_own_jobs=preempts_own_jobs,
        is_over_budget=is_over_budget,
        managed=_is_managed(queue),
        groups=tuple(groups),
        written=queue.spec.resourceGroups,
        private=private,
    )


def read_quotas(groups: Iterable[KueueResourceGroup]) -> dict[FlavorResource, ResourceQuota]:
    return {
        (flavor.name, resource.name): ResourceQuota(
            nominal=amount(resource.name, resource.nominalQuota),
            borrowing_limit=_limit(resource.name, resource.borrowingLimit),
            lending_limit=_limit(resource.name, resource.lendingLimit),
        )
        for group in groups
        for flavor in group.flavors
        for resource in flavor.resources
    }


def as_before(
    quotas: dict[FlavorResource, ResourceQuota], private: PrivateQuota | None
) -> dict[FlavorResource, ResourceQuota]:
    """The quotas before the queue got private quota."""
    for original in private.originals if private else ():
        key = (original.flavor, original.resource)
        quotas[key] = replace(
            quotas.get(key, ResourceQuota()),
            nominal=amount(original.resource, original.nominal or 0),
            lending_limit=_limit(original.resource, original.lending_limit),
        )
    return quotas


def _limit(resource: str, text: str | int | None) -> int | None:
    return None if text is None else amount(resource, text)
