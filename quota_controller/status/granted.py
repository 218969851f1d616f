"""PURE. How a status keeps what was granted, so that it survives a restart of the controller."""

from collections.abc import Iterable, Mapping

from cede.api.allocation_status import QuotaStatus
from cede.api.resources import quantity
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.grant_records import GrantedAmount, GrantRecord


def granted_amounts(
    record: GrantRecord, type_name: str, resources: Iterable[str] = ()
) -> dict[str, str]:
    """What was granted of the type, by resource; 0 of these resources if nothing was."""
    amounts = {
        resource: granted.amount for resource, granted in _of_type(record, type_name).items()
    }
    amounts = dict.fromkeys(resources, 0) | amounts
    return {resource: quantity(resource, value) for resource, value in amounts.items()}


def granted_of(record: GrantRecord, type_name: str) -> dict[str, str]:
    """What the entry amounted to when that was granted, by resource, as far as it is known."""
    return {
        resource: quantity(resource, granted.of)
        for resource, granted in _of_type(record, type_name).items()
        if granted.of is not None
    }


def granted_for(record: GrantRecord, type_name: str) -> str:
    """The entry of spec.quotas of which something was granted, as JSON; empty if nothing was."""
    if not _of_type(record, type_name):
        return ""
    for entry in record.quotas:
        if entry.instanceType == type_name:
            return entry.model_dump_json(exclude_none=True)
    return ""


def unknown_types(record: GrantRecord, capacities: Mapping[str, Capacity]) -> list[QuotaStatus]:
    """What was granted of types that the policy lacks, for the time when it has them again."""
    types = {type_name for type_name, _ in record.amounts} - capacities.keys()
    return [
        QuotaStatus(
            instanceType=type_name,
            granted=granted_amounts(record, type_name),
            grantedOf=granted_of(record, type_name),
            grantedFor=granted_for(record, type_name),
        )
        for type_name in sorted(types)
    ]


def _of_type(record: GrantRecord, type_name: str) -> dict[str, GrantedAmount]:
    return {
        resource: granted
        for (type_, resource), granted in record.amounts.items()
        if type_ == type_name
    }
