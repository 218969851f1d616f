"""PURE. What was granted to an allocation, as its status keeps it, and what an edit makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import QuotaStatus
from cede.api.resources import FlavorResource, amount
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import CPU_AND_MEMORY, Capacity
from quota_controller.desired.quota_entries import entry_quota


@dataclass(frozen=True, slots=True)
class GrantedAmount:
    """A granted amount of one resource, more than 0."""

    amount: int
    # what the entry amounted to at that time, at least `amount`; None: the entry was edited while
    # nothing of the resource could be counted
    basis: int | None

    def part_of(self, asked: int) -> int:
        """The granted part of what the entry amounts to now, rounded down.

        If a node is worth less for a moment, this is less, and afterwards the same again.
        """
        if self.basis is None:
            return min(self.amount, asked)
        return asked * self.amount // self.basis

    def reserved(self, asked: int) -> int:
        """What nobody else may get. All of it while nothing of the resource can be counted."""
        if not asked:
            return self.amount
        if self.basis is None:
            return min(self.amount, asked)
        return -(-asked * self.amount // self.basis)


@dataclass(frozen=True)
class GrantRecord:
    """What one allocation was granted, and the `spec.quotas` that this is about."""

    quotas: Sequence[TypeQuota] = ()
    amounts: Mapping[FlavorResource, GrantedAmount] = field(default_factory=dict)
    # True if the status was written by a version that recorded no grants
    undecided: bool = False

    def asks_for(self, key: FlavorResource, capacity: Capacity) -> bool:
        """Whether one of `quotas` does, whatever a node is worth now."""
        type_name, resource = key
        return any(
            entry.instanceType == type_name and asks_for(entry, resource, capacity)
            for entry in self.quotas
        )


def recorded(allocation: ComputeAllocation) -> GrantRecord:
    """The record in the status. An amount that cannot be read counts as not granted."""
    status = allocation.status
    quotas = []
    amounts = dict[FlavorResource, GrantedAmount]()
    for entry in status.quotas:
        quota = _granted_entry(entry)
        if quota is None:
            continue
        quotas.append(quota)
        for resource in entry.granted:
            granted = _granted_amount(entry, resource)
            if granted:
                amounts[entry.instanceType, resource] = granted
    is_older = bool(status.quotas) and not any(entry.granted for entry in status.quotas)
    return GrantRecord(quotas, amounts, undecided=is_older)


def _granted_entry(entry: QuotaStatus) -> TypeQuota | None:
    try:
        quota = TypeQuota.model_validate_json(entry.grantedFor)
    except ValueError:
        return None
    return quota if quota.instanceType == entry.instanceType else None


def _granted_amount(entry: QuotaStatus, resource: str) -> GrantedAmount | None:
    try:
        granted = amount(resource, entry.granted[resource])
        if resource not in entry.grantedOf:
            return GrantedAmount(granted, None) if granted > 0 else None
        basis = amount(resource, entry.grantedOf[resource])
    except ValueError:
        return None
    return GrantedAmount(granted, basis) if 0 < granted <= basis else None


def after_edit(
    record: GrantRecord, quotas: Sequence[TypeQuota], capacities: Mapping[str, Capacity]
) -> GrantRecord:
    """The record for a spec that may have been edited: only an entry that asks for less loses.

    What nodes are worth at the moment changes nothing, and neither does a type that the policy
    lacks.
    """
    if record.quotas == quotas:
        return record
    old_entries = {entry.instanceType: entry for entry in record.quotas}
    new_entries = {entry.instanceType: entry for entry in quotas}
    amounts = dict[FlavorResource, GrantedAmount]()
    for key, granted in record.amounts.items():
        type_name, resource = key
        old, new = old_entries.get(type_name), new_entries.get(type_name)
        kept: GrantedAmount | None = granted
        if old is None or new is None:
            kept = None
        elif old != new:
            kept = _edited(granted, old, new, resource, capacities.get(type_name))
        if kept:
            amounts[key] = kept
    return GrantRecord(quotas, amounts, record.undecided)


def _edited(
    granted: GrantedAmount,
    old: TypeQuota,
    new: TypeQuota,
    resource: str,
    capacity: Capacity | None,
) -> GrantedAmount | None:
    """The granted amount after its entry was edited; None if the new entry asks for none of it."""
    if not asks_for(new, resource, capacity):
        return None
    if old.count and new.count:
        # this comparison needs no node
        before, after = old.count, new.count
    elif capacity:
        before, after = (entry_quota(entry, capacity)[resource] for entry in (old, new))
    else:
        before, after = 0, 0
    if granted.basis is None or not before or not after:
        return GrantedAmount(granted.amount, None)
    # rounded up: a part of more is not more
    basis = -(-granted.basis * after // before)
    return GrantedAmount(min(granted.amount, basis), basis)


def asks_for(entry: TypeQuota, resource: str, capacity: Capacity | None) -> bool:
    """Whether the entry asks for any of the resource, whatever a node is worth now."""
    if entry.count is not None:
        return entry.count > 0
    if resource in CPU_AND_MEMORY:
        return _asks_for_cpu_or_memory(entry, resource)
    is_accelerator = capacity is None or resource == capacity.type.accelerator
    if is_accelerator and entry.accelerators:
        return True
    return bool((entry.partitions or {}).get(resource))


def _asks_for_cpu_or_memory(entry: TypeQuota, resource: str) -> bool:
    """One that is left out follows the accelerators and partitions, or else the other one."""
    texts = {"cpu": entry.cpu, "memory": entry.memory}
    text = texts.pop(resource)
    if text is None and (entry.accelerators is not None or entry.partitions):
        return bool(entry.accelerators) or any((entry.partitions or {}).values())
    if text is not None:
        return amount(resource, text) > 0
    return any(amount(other, value) > 0 for other, value in texts.items() if value is not None)
