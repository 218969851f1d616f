"""PURE. What the entries of an allocation amount to."""

from collections import Counter
from collections.abc import Iterable, Mapping

from cede.api.allocation import AllocationSpec
from cede.api.resources import Quota, Resources, amount
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import CPU_AND_MEMORY, Capacity, slices


def entry_quota(entry: TypeQuota, capacity: Capacity) -> Resources:
    """What one entry of `quotas` or `borrowLimits` amounts to, rounded down.

    That is whole nodes if the entry has a count, else the amounts in it. CPU and memory that it
    leaves out follow its accelerators and partitions in proportion to a whole node; without those,
    each follows the other. Accelerators follow nothing.
    """
    whole_node = capacity.whole_node
    if entry.count is not None:
        return Counter({name: whole_node[name] * entry.count for name in capacity.resources})
    accelerators = {
        name: count
        for name, count in (entry.partitions or {}).items()
        if name in capacity.resources
    }
    if entry.accelerators is not None:
        accelerators[capacity.type.accelerator] = entry.accelerators
    amounts = dict(accelerators)
    for name, text in (("cpu", entry.cpu), ("memory", entry.memory)):
        if text is not None:
            amounts[name] = amount(name, text)
    if accelerators:
        share = slices(capacity.type, accelerators)
        node_total = capacity.whole_node_slices
    else:
        basis = "cpu" if "cpu" in amounts else "memory"
        share = amounts.get(basis, 0)
        node_total = whole_node[basis]
    for name in CPU_AND_MEMORY:
        proportional = whole_node[name] * share // node_total if node_total else 0
        amounts.setdefault(name, proportional)
    return Counter({name: amounts.get(name, 0) for name in capacity.resources})


def owned_quota(spec: AllocationSpec, capacities: Mapping[str, Capacity]) -> Quota:
    """What an allocation owns by its spec, whether or not the nodes are healthy."""
    return sum_of_entries(spec.quotas, capacities)


def sum_of_entries(entries: Iterable[TypeQuota], capacities: Mapping[str, Capacity]) -> Quota:
    """The entries by (instance type, resource), without zeros and types unknown to the policy."""
    quota = Quota()
    for entry in entries:
        capacity = capacities.get(entry.instanceType)
        if capacity is None:
            continue
        for name, value in entry_quota(entry, capacity).items():
            if value:
                quota[entry.instanceType, name] += value
    return quota
