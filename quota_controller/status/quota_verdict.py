"""PURE. Whether a team has the quota that its allocation asks for, and what to do if not."""

from collections.abc import Iterable, Iterator

from cede.api.allocation import ComputeAllocation
from cede.api.reasons import AllocationReason
from cede.api.resources import FlavorResource, Quota, describe_amounts
from cede.api.team_quota import TypeQuota
from cede.api.verdict import Verdict
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.plan import Plan


def quota_verdict(allocation: ComputeAllocation, plan: Plan) -> Verdict:
    """Condition Ready of an allocation whose queue works: what it owns, shares and lacks."""
    name = allocation.metadata.name
    owned, grants = plan.owned[name], plan.grants
    not_granted = owned - grants.granted[name]
    verb = "asks for" if not_granted else "owns"
    summary = (
        f"team {allocation.team} {verb} {describe_amounts(owned)}; it {_sharing_terms(allocation)}"
    )
    sentences = []
    if not_granted:
        sentences.append(_not_granted_text(not_granted, plan))
        sentences += _fitting_texts(allocation, plan, not_granted)
    missing = grants.granted[name] - grants.usable[name]
    if missing:
        whole = "what is granted" if not_granted else "it"
        sentences.append(
            f"{describe_amounts(missing)} of {whole} is missing, because healthy "
            f"{_types(missing)} nodes hold less than is granted: every quota is reduced in "
            "proportion"
        )
    if sentences:
        reason = AllocationReason.INSUFFICIENT_NODES
        if not_granted - grants.awaited[name]:
            reason = AllocationReason.OVERSUBSCRIBED
        return Verdict(True, reason, "; ".join([summary, *sentences]))
    without_nodes = _types(key for key in owned if plan.capacities[key[0]].declared_only)
    if without_nodes:
        message = (
            f"{summary}; no node of type {without_nodes} exists yet: that part can be used when "
            "such nodes join"
        )
        return Verdict(True, AllocationReason.NO_NODES_YET, message)
    return Verdict(True, AllocationReason.READY, summary)


def _types(keys: Iterable[FlavorResource]) -> str:
    return ", ".join(sorted({type_name for type_name, _ in keys}))


def _not_granted_text(not_granted: Quota, plan: Plan) -> str:
    return (
        f"{describe_amounts(not_granted)} of it is not granted, because no more of the "
        f"{_types(not_granted)} nodes is unallocated"
    )


def _fitting_texts(allocation: ComputeAllocation, plan: Plan, not_granted: Quota) -> Iterator[str]:
    """For every entry that is too large: what fits now, and what fits when all nodes are back."""
    name = allocation.metadata.name
    for entry in allocation.spec.quotas:
        type_name = entry.instanceType
        if not _has_type(not_granted, type_name):
            continue
        capacity = plan.capacities[type_name]
        granted, awaited = plan.grants.granted[name], plan.grants.awaited[name]
        text = f"of {type_name}, {_fitting(entry, capacity, granted)}"
        if _has_type(awaited, type_name):
            down = capacity.nodes - capacity.healthy_nodes
            later = _fitting(entry, capacity, granted + awaited)
            text += f", and {later} when all nodes are back: {down} of {capacity.nodes} down"
        if _has_type(not_granted - awaited, type_name):
            text += "; lower the entry to what fits, or add nodes"
        yield text


def _has_type(quota: Quota, type_name: str) -> bool:
    return any(key[0] == type_name for key in quota)


def _fitting(entry: TypeQuota, capacity: Capacity, granted: Quota) -> str:
    """`1 of 50 nodes fits`; of an entry in amounts, the granted amounts."""
    type_name = entry.instanceType
    if entry.count is None:
        amounts = {resource: granted[type_name, resource] for resource in capacity.resources}
        return f"{describe_amounts(amounts)} fits"
    nodes = min(
        granted[type_name, resource] // worth
        for resource, worth in capacity.whole_node.items()
        if worth
    )
    return f"{nodes} of {entry.count} nodes {'fits' if nodes == 1 else 'fit'}"


def _sharing_terms(allocation: ComputeAllocation) -> str:
    sharing = allocation.spec.sharing
    if sharing.strategy == "DontLend":
        return "shares nothing"
    if sharing.strategy == "Lend":
        return "lends idle quota"
    if sharing.borrowLimits:
        return "lends idle quota and borrows within its borrowLimits"
    if sharing.borrowLimitPercent is not None:
        return f"lends idle quota and borrows up to {sharing.borrowLimitPercent} % of that"
    return "lends idle quota and borrows"
