"""PURE. How a status keeps what was granted, so that it survives a restart of the controller."""

from collections.abc import Iterable, Mapping

from cede.api.allocation_status import QuotaStatus
from cede.api.resources import quantity
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.grant_records import GrantedAmount, GrantRecord

GrantedResources = Mapping[str, GrantedAmount]
"""What was granted of one instance type, by resource."""
NOTHING: GrantedResources = {}


def by_type(record: GrantRecord) -> dict[str, GrantedResources]:
    """What was granted, by instance type."""
    types: dict[str, dict[str, GrantedAmount]] = {}
    for (type_name, resource), granted in record.amounts.items():
        types.setdefault(type_name, {})[resource] = granted
    return dict(types)


def granted_amounts(granted: GrantedResources, resources: Iterable[str] = ()) -> dict[str, str]:
    """The granted amounts, with 0 for these resources if nothing of them was granted."""
    amounts = dict.fromkeys(resources, 0)
    amounts |= {resource: before.amount for resource, before in granted.items()}
    return {resource: quantity(resource, value) for resource, value in amounts.items()}


def granted_of(granted: GrantedResources) -> dict[str, str]:
    """What the entry amounted to when that was granted, by resource, as far as it is known."""
    return {
        resource: quantity(resource, before.basis)
        for resource, before in granted.items()
        if before.basis is not None
    }


def granted_for(granted: GrantedResources, quotas: Iterable[TypeQuota], type_name: str) -> str:
    """The entry of the type in `quotas` as JSON; empty if nothing was granted of it."""
    entry = next((entry for entry in quotas if entry.instanceType == type_name), None)
    if not granted or entry is None:
        return ""
    return entry.model_dump_json(exclude_none=True)


def unknown_types(record: GrantRecord, capacities: Mapping[str, Capacity]) -> list[QuotaStatus]:
    """What was granted of types that the policy lacks, for the time when it has them again."""
    return [
        QuotaStatus(
            instanceType=type_name,
            granted=granted_amounts(granted),
            grantedOf=granted_of(granted),
            grantedFor=granted_for(granted, record.quotas, type_name),
        )
        for type_name, granted in sorted(by_type(record).items())
        if type_name not in capacities
    ]
