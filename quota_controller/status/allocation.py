"""PURE. The status of every ComputeAllocation, from the plan and from what Kueue reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import AllocationStatus, QuotaStatus
from cede.api.crd_schema import MAX_STATUS_TEXT
from cede.api.objects import Json
from cede.api.resources import Quota, quantity
from cede.api.short_text import listed
from cede.api.verdict import with_verdict
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.grant_records import GrantRecord
from quota_controller.desired.plan import Plan, Snapshot
from quota_controller.status.allocation_conditions import (
    admits_verdict,
    ready_verdict,
    waiting_workloads,
)
from quota_controller.status.budget import budget_verdict
from quota_controller.status.granted import (
    NOTHING,
    GrantedResources,
    by_type,
    granted_amounts,
    granted_for,
    granted_of,
    unknown_types,
)

ADMITS = "Admits"
"""The type of the condition that reports whether work waits."""


def allocation_statuses(
    plan: Plan, snapshot: Snapshot, write_problems: Problems, now: float
) -> dict[str, AllocationStatus]:
    """The status of every allocation, by name.

    `write_problems` are those of the last writes, by owner.
    """
    return {
        allocation.metadata.name: allocation_status(allocation, plan, snapshot, write_problems, now)
        for allocation in snapshot.allocations
    }


def allocation_status(
    allocation: ComputeAllocation,
    plan: Plan,
    snapshot: Snapshot,
    write_problems: Problems,
    now: float,
) -> AllocationStatus:
    """The status of one allocation; `write_problems` as above."""
    name = allocation.metadata.name
    generation = allocation.metadata.generation
    conditions = allocation.status.conditions
    for type_, verdict in (
        (names.READY, ready_verdict(allocation, plan, snapshot, write_problems)),
        (ADMITS, admits_verdict(allocation, plan, snapshot)),
    ):
        conditions = with_verdict(conditions, type_, verdict, generation=generation, now=now)
    # without a policy there are no figures to compute: the last ones stay
    if snapshot.policy is None:
        return allocation.status.model_copy(
            update={"observedGeneration": generation, "conditions": conditions}
        )
    conditions = _with_budget(conditions, allocation, plan, now)
    budget = plan.budgets.get(name)
    record = plan.grants.records.get(name, GrantRecord())
    granted = by_type(record)
    figures = _figures(allocation, plan, snapshot)
    types_in_use = {type_name for (type_name, _), value in figures.used.items() if value}
    types = types_in_use | {entry.instanceType for entry in allocation.spec.quotas}
    capacities = {
        type_name: capacity for type_name, capacity in plan.capacities.items() if type_name in types
    }
    return AllocationStatus(
        observedGeneration=generation,
        conditions=conditions,
        team=allocation.team,
        namespace=plan.namespaces.get(name, allocation.status.namespace),
        clusterQueue=name,
        localQueue=names.LOCAL_QUEUE,
        waiting=waiting_workloads(allocation, snapshot),
        owns=column_text(figures.owned, capacities),
        used=column_text(figures.used, capacities),
        lent=column_text(figures.lent, capacities),
        borrowed=column_text(figures.borrowed, capacities),
        budgetUsedHours=budget.to_keep if budget else {},
        quotas=[
            *(
                _quota_status(allocation, type_, granted.get(type_name, NOTHING), figures)
                for type_name, type_ in capacities.items()
            ),
            *unknown_types(record, plan.capacities),
        ],
    )


def _with_budget(
    conditions: list[Json], allocation: ComputeAllocation, plan: Plan, now: float
) -> list[Json]:
    """With the condition WithinBudget if there is a budget, else without it."""
    use = plan.budgets.get(allocation.metadata.name)
    if use is None:
        return [entry for entry in conditions if entry["type"] != names.WITHIN_BUDGET]
    verdict = budget_verdict(allocation.team, use)
    generation = allocation.metadata.generation
    return with_verdict(conditions, names.WITHIN_BUDGET, verdict, generation=generation, now=now)


@dataclass(frozen=True)
class _Figures:
    """The quotas that a status reports, of all instance types."""

    owned: Quota
    usable: Quota
    used: Quota
    borrowed: Quota
    lent: Quota
    # None while nothing waits
    available: Quota | None


def _figures(allocation: ComputeAllocation, plan: Plan, snapshot: Snapshot) -> _Figures:
    name = allocation.metadata.name
    # The idle quota of the cohort changes with every job of any team. If it were reported while
    # nothing waits, every admission would write the status of every allocation.
    waits = waiting_workloads(allocation, snapshot)
    return _Figures(
        owned=plan.owned.get(name, Quota()),
        usable=plan.grants.usable.get(name, Quota()),
        used=plan.usage.used_by(name),
        borrowed=plan.usage.borrowed_by(name),
        lent=plan.usage.lent_by(name),
        available=plan.available.get(name, Quota()) if waits else None,
    )


def _quota_status(
    allocation: ComputeAllocation,
    capacity: Capacity,
    granted: GrantedResources,
    figures: _Figures,
) -> QuotaStatus:
    available = figures.available
    return QuotaStatus(
        instanceType=capacity.type.name,
        noNodesYet=capacity.declared_only,
        nominal=amounts_of_type(figures.owned, capacity),
        granted=granted_amounts(granted, capacity.resources),
        grantedOf=granted_of(granted),
        grantedFor=granted_for(granted, allocation.spec.quotas, capacity.type.name),
        healthy=amounts_of_type(figures.usable, capacity),
        free={} if available is None else amounts_of_type(available, capacity),
        used=amounts_of_type(figures.used, capacity),
        borrowed=amounts_of_type(figures.borrowed, capacity),
        lent=amounts_of_type(figures.lent, capacity),
    )


def amounts_of_type(quota: Quota, capacity: Capacity) -> dict[str, str]:
    """The quota of one instance type as Kubernetes quantities by resource, with zeros."""
    return {name: quantity(name, quota[capacity.type.name, name]) for name in capacity.resources}


def column_text(quota: Quota, capacities: Mapping[str, Capacity]) -> str:
    """`4 gpu, 7 mig-1g.10gb`: a quota for a column of `kubectl get`.

    Only accelerators and partitions are listed; CPU if the types have none. If all amounts are
    zero, the first resource is listed with 0. What does not fit is counted: `and 3 more`.
    """
    resources = {
        name
        for capacity in capacities.values()
        for name in capacity.resources
        if "/" in name and capacity.largest_node[name]
    }
    amounts = dict[str, int]()
    for resource in sorted(resources or {"cpu"}):
        amounts[resource] = sum(quota[type_name, resource] for type_name in capacities)
    amounts = {name: value for name, value in amounts.items() if value} or {min(amounts): 0}
    phrases = [
        f"{quantity(resource, value)} {resource.rsplit('/', 1)[-1]}"
        for resource, value in amounts.items()
    ]
    return listed(phrases, MAX_STATUS_TEXT)
