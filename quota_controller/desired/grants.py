"""PURE. What every allocation is granted, and what its queue gets of that now."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from cede.api.apportion import in_proportion, in_rising_order
from cede.api.policy import MAX_RESOURCES
from cede.api.resources import FlavorResource, Quota
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.grant_records import GrantedAmount, GrantRecord

_Amounts = dict[FlavorResource, GrantedAmount]


@dataclass(frozen=True)
class Grants:
    """Quotas by allocation, and the healthy capacity that is in none."""

    # what is the allocation's own; of a type without nodes, all that it asks for
    granted: Mapping[str, Quota] = field(default_factory=dict)
    # what its queue gets now: less than granted while healthy nodes hold less
    usable: Mapping[str, Quota] = field(default_factory=dict)
    # what it is granted too when the nodes that are down return
    awaited: Mapping[str, Quota] = field(default_factory=dict)
    unallocated: Quota = field(default_factory=Quota)
    records: Mapping[str, GrantRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class _KeyGrants:
    """The grants of one resource of one instance type, by allocation."""

    granted: Mapping[str, int]
    awaited: Mapping[str, int]
    records: Mapping[str, GrantedAmount]


def grant(
    owned: Mapping[str, Quota],
    capacities: Mapping[str, Capacity],
    records: Mapping[str, GrantRecord] | None = None,
    taken: Quota | None = None,
) -> Grants:
    """What was granted before stays granted, and more is granted of what is unallocated only.

    If all nodes hold less than is granted, those lose it that ask for more than they were granted.
    If healthy nodes hold less, the unallocated part is reduced first, then every quota in
    proportion. A type without nodes is granted in full, and none of it is recorded. `taken` is the
    quota of queues that stay as they are: it is nobody else's.
    """
    records = records or {}
    taken = taken or Quota()
    undecided = {name for name, record in records.items() if record.undecided}
    asked_by_key = _asked_by_key(owned)
    recorded_by_key, kept = _split_records(records, owned, capacities)
    granted: dict[str, Quota] = {name: Quota() for name in owned}
    usable: dict[str, Quota] = {name: Quota() for name in owned}
    awaited: dict[str, Quota] = {name: Quota() for name in owned}
    unallocated = Quota()
    for type_name, capacity in capacities.items():
        for resource in capacity.resources:
            key = (type_name, resource)
            asked = asked_by_key.get(key, {})
            if capacity.declared_only:
                _set(granted, key, asked)
                _set(usable, key, asked)
                unallocated[key] = 0
                continue
            healthy = max(0, capacity.healthy[resource] - taken[key])
            installed = max(0, capacity.installed[resource] - taken[key])
            recorded = recorded_by_key.get(key, {})
            decided = _grant_key(asked, recorded, undecided, healthy, installed)
            usable_now = _usable_now(decided, healthy, installed)
            _set(granted, key, decided.granted)
            _set(usable, key, usable_now)
            _set(awaited, key, decided.awaited)
            unallocated[key] = healthy - sum(usable_now.values())
            for name, granted_amount in decided.records.items():
                kept[name][key] = granted_amount
    new_records = {}
    for name in owned:
        record = records.get(name, GrantRecord())
        new_records[name] = replace(record, amounts=kept[name], undecided=False)
    return Grants(granted, usable, awaited, unallocated, new_records)


def _grant_key(
    asked: Mapping[str, int],
    recorded: Mapping[str, GrantedAmount],
    undecided: Set[str],
    healthy: int,
    installed: int,
) -> _KeyGrants:
    """`asked` has no zeros. What is recorded of an allocation that asks for nothing now stays."""
    granted = {
        name: recorded[name].part_of(value) if name in recorded else 0
        for name, value in asked.items()
    }
    reserved = sum(before.reserved(asked.get(name, 0)) for name, before in recorded.items())
    records = dict(recorded)
    for name, value in _surplus(asked, granted, reserved - installed).items():
        granted[name] -= value
        reserved -= value
        if not granted[name]:
            del records[name]
    # From before grants were recorded: all that the nodes hold is granted. Nodes that are down
    # count, because what they hold was somebody's before.
    older = {name: asked[name] for name in asked.keys() & undecided if name not in recorded}
    if older:
        shares = in_rising_order(older, installed - reserved, asked)
        granted |= shares
        reserved += sum(shares.values())
    missing = _missing(asked, granted)
    awaited = dict[str, int]()
    if missing:
        for name, value in in_rising_order(missing, healthy - reserved, asked).items():
            granted[name] += value
            reserved += value
        awaited = in_rising_order(_missing(asked, granted), installed - reserved, asked)
    for name, value in granted.items():
        before = recorded.get(name)
        is_recorded = before and before.basis is not None and before.part_of(asked[name]) == value
        if value and not is_recorded:
            records[name] = GrantedAmount(value, asked[name])
    return _KeyGrants(granted, awaited, records)


def _usable_now(decided: _KeyGrants, healthy: int, installed: int) -> dict[str, int]:
    """The granted amounts, in proportion if healthy nodes hold less.

    An allocation may ask for nothing now, such as for CPU that follows accelerators while their
    devices are gone. Its share is not divided among the others: they would lose it again when that
    allocation is edited. What the nodes of the type no longer hold is nobody's share.
    """
    withheld = {
        name: record.amount
        for name, record in decided.records.items()
        if name not in decided.granted
    }
    room = installed - sum(decided.granted.values())
    shares = in_proportion({**decided.granted, **in_proportion(withheld, room)}, healthy)
    return {name: shares[name] for name in decided.granted}


def _surplus(asked: Mapping[str, int], granted: Mapping[str, int], too_much: int) -> dict[str, int]:
    """What those lose that were not granted in full, the largest first: nodes are gone for good.

    Otherwise an allocation that takes what a node brings would harm all when another node leaves.
    """
    losses = {}
    for name in sorted(_missing(asked, granted), key=lambda name: (-asked[name], name)):
        loss = min(granted[name], too_much)
        if loss > 0:
            losses[name] = loss
            too_much -= loss
    return losses


def _missing(asked: Mapping[str, int], granted: Mapping[str, int]) -> dict[str, int]:
    return {name: value - granted[name] for name, value in asked.items() if value > granted[name]}


def _set(quotas: Mapping[str, Quota], key: FlavorResource, amounts: Mapping[str, int]) -> None:
    for name, value in amounts.items():
        if value:
            quotas[name][key] = value


def _asked_by_key(owned: Mapping[str, Quota]) -> dict[FlavorResource, dict[str, int]]:
    asked: dict[FlavorResource, dict[str, int]] = {}
    for name, quota in owned.items():
        for key, value in quota.items():
            if value:
                asked.setdefault(key, {})[name] = value
    return asked


def _split_records(
    records: Mapping[str, GrantRecord],
    owned: Mapping[str, Quota],
    capacities: Mapping[str, Capacity],
) -> tuple[dict[FlavorResource, dict[str, GrantedAmount]], dict[str, _Amounts]]:
    """The recorded amounts by resource; and by allocation those that cannot be counted now.

    These are of types that have no nodes now, or that the policy lacks. They stay as they are.
    """
    by_key: dict[FlavorResource, dict[str, GrantedAmount]] = {}
    kept: dict[str, _Amounts] = {name: {} for name in owned}
    for name, quota in owned.items():
        record = records.get(name, GrantRecord())
        for key, granted in record.amounts.items():
            type_name, resource = key
            capacity = capacities.get(type_name)
            if not capacity or capacity.declared_only or resource not in capacity.resources:
                kept[name][key] = granted
            elif quota[key] or record.asks_for(key, capacity):
                by_key.setdefault(key, {})[name] = granted
        _drop_surplus_resources(kept[name], capacities)
    return by_key, kept


def _drop_surplus_resources(kept: _Amounts, capacities: Mapping[str, Capacity]) -> None:
    """A policy that renames partitions again and again leaves more of them than a status holds."""
    for type_name in {type_name for type_name, _ in kept} & capacities.keys():
        resources = capacities[type_name].resources
        renamed = [key for key in kept if key[0] == type_name and key[1] not in resources]
        for key in renamed[MAX_RESOURCES - len(resources) :]:
            del kept[key]
