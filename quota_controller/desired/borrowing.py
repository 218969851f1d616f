"""PURE. Who borrows from whom, and the limits of borrowing and lending.

Kueue keeps one pool of quota and does not record lenders. The account here is derived from the
usage that Kueue reports for every queue.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api import private_quota
from cede.api.allocation import AllocationSpec, ComputeAllocation
from cede.api.apportion import in_proportion
from cede.api.objects import CLUSTER_QUEUES, Json
from cede.api.resources import Quota, amount, total
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.desired_object import LiveObjects
from quota_controller.desired.grants import Grants
from quota_controller.desired.quota_entries import sum_of_entries


@dataclass(frozen=True)
class CohortUsage:
    """Usage by allocation, each by (instance type, resource)."""

    # what the team's jobs use
    used: Mapping[str, Quota] = field(default_factory=dict)
    # the part of `used` beyond the team's own quota
    borrowed: Mapping[str, Quota] = field(default_factory=dict)
    # the part of the team's quota that other teams use
    lent: Mapping[str, Quota] = field(default_factory=dict)
    # what any team of the cohort that borrows without limit could borrow now
    idle: Quota = field(default_factory=Quota)

    def used_by(self, name: str) -> Quota:
        return self.used.get(name, Quota())

    def borrowed_by(self, name: str) -> Quota:
        return self.borrowed.get(name, Quota())

    def lent_by(self, name: str) -> Quota:
        return self.lent.get(name, Quota())


def cohort_usage(
    allocations: Iterable[ComputeAllocation],
    grants: Grants,
    live: LiveObjects,
    *,
    share_unallocated: bool,
) -> CohortUsage:
    """What every team uses, borrows and lends.

    Borrowed quota is attributed to unallocated capacity first, then to the teams that lend, then to
    teams that stopped lending and whose quota is still in use.
    """
    allocations = list(allocations)
    used = {}
    borrowed = {}
    for allocation in allocations:
        name = allocation.metadata.name
        used[name], borrowed[name] = queue_usage(live.get((CLUSTER_QUEUES, ("", name))))
    idle_of_lenders = {}
    idle_of_others = {}
    for allocation in allocations:
        name = allocation.metadata.name
        idle = grants.usable.get(name, Quota()) - used[name]
        if allocation.spec.sharing.strategy == "DontLend":
            idle_of_others[name] = idle
        else:
            idle_of_lenders[name] = idle
    shared = grants.unallocated if share_unallocated else Quota()
    all_borrowed = total(borrowed.values())
    from_allocations = all_borrowed - shared
    lent_by_lenders = attribute(from_allocations, idle_of_lenders)
    from_others = from_allocations - total(lent_by_lenders.values())
    lent_by_others = attribute(from_others, idle_of_others)
    return CohortUsage(
        used,
        borrowed,
        lent=lent_by_lenders | lent_by_others,
        idle=total([*idle_of_lenders.values(), shared]) - all_borrowed,
    )


def available_quota(
    allocation: ComputeAllocation, usable: Quota, borrowing_limit: Quota | None, usage: CohortUsage
) -> Quota:
    """What the team's next job could use now: idle quota of its own, and what it may still borrow.

    `borrowing_limit` None is no limit. The rule is Kueue's for a flat cohort
    (pkg/cache/scheduler/resource_node.go).
    """
    name = allocation.metadata.name
    own = usable - usage.used_by(name)
    if allocation.spec.sharing.strategy == "DontLend":
        return own - usage.lent_by(name)
    if borrowing_limit is None:
        return usage.idle
    borrowable = borrowing_limit - usage.borrowed_by(name)
    return usage.idle & (own + borrowable)


def queue_usage(queue: Json | None) -> tuple[Quota, Quota]:
    """(used, borrowed) of a ClusterQueue by (flavor, resource), as Kueue reports reservations."""
    used = Quota()
    borrowed = Quota()
    status = (queue or {}).get("status") or {}
    for flavor in status.get("flavorsReservation") or []:
        for resource in flavor.get("resources", []):
            key = (flavor["name"], resource["name"])
            used[key] = amount(resource["name"], resource.get("total", 0))
            borrowed[key] = amount(resource["name"], resource.get("borrowed", 0))
    # what a queue uses beyond its quota is borrowed, also while it has private quota for a moment
    for original in private_quota.originals_of(queue or {}):
        key = (original.flavor, original.resource)
        own = amount(original.resource, original.nominal or 0)
        borrowed[key] = max(borrowed[key], used[key] - own)
    return used, borrowed


def attribute(borrowed: Quota, idle: Mapping[str, Quota]) -> dict[str, Quota]:
    """The borrowed quota by lender: each lends at most its idle quota, and in proportion to it."""
    lent: dict[str, Quota] = {name: Quota() for name in idle}
    for key, borrowed_amount in borrowed.items():
        lenders = {name: quota[key] for name, quota in idle.items() if quota[key] > 0}
        for name, value in in_proportion(lenders, borrowed_amount).items():
            if value:
                lent[name][key] = value
    return lent


def lending_limits(allocation: ComputeAllocation, lent: Quota) -> Quota | None:
    """The most of its quota that other teams may use; None is no limit.

    A team that stops lending keeps what is lent now as its limit, and gets it back as borrowers
    finish or shrink. With a lower limit Kueue would admit the owner's jobs to this quota at once,
    and their pods would find no free node.
    """
    return lent if allocation.spec.sharing.strategy == "DontLend" else None


def borrowing_limits(
    spec: AllocationSpec, granted: Quota, capacities: Mapping[str, Capacity]
) -> Quota | None:
    """The most that the team may borrow, by (instance type, resource); None is no limit.

    A key that is absent means 0.
    """
    sharing = spec.sharing
    if sharing.strategy != "LendAndBorrow":
        return Quota()
    if sharing.borrowLimitPercent is not None:
        return Counter(
            {key: value * sharing.borrowLimitPercent // 100 for key, value in granted.items()}
        )
    if sharing.borrowLimits:
        return sum_of_entries(sharing.borrowLimits, capacities)
    return None
