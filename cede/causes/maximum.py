"""PURE. Why a job that asks for more than its queue may use would never fit."""

from cede.api.allocation import ComputeAllocation
from cede.api.objects import condition
from cede.api.reasons import AllocationReason
from cede.api.resources import amount
from cede.api.wait_reasons import WaitReason
from cede.causes.budget import budget_used
from cede.causes.facts import Cause, shown
from cede.causes.index import Index
from cede.causes.kueue_message import Excess, Lack
from cede.causes.queue_quota import QueueQuota, describe_shortage, own_quota


def exceeds_maximum(excess: Excess, queue_name: str, index: Index) -> Cause:
    """It would never fit, unless the team was promised so much."""
    resource, flavor = excess.resource, excess.flavor
    quota = own_quota(queue_name, flavor, resource, index)
    promised = broken_promise(excess.asked, quota, queue_name, flavor, resource, index)
    if promised:
        return promised
    asked = shown(resource, excess.asked)
    limits = shown(resource, excess.maximum)
    lack = Lack(resource, flavor, excess.asked - excess.maximum)
    shortage = describe_shortage(lack, excess.asked, quota, ())
    facts = f"It asks for {asked} of {flavor}, and queue {queue_name} may"
    return budget_used(queue_name, f"{facts} use {limits} now", shortage, index) or Cause(
        WaitReason.EXCEEDS_MAXIMUM,
        f"{facts} never use more than {limits}{_limits(quota, resource)}.",
        "ask for less, or have an admin raise the team's quota or its borrowing limit",
        shortage,
    )


def _limits(quota: QueueQuota | None, resource: str) -> str:
    if quota is None:
        return ""
    owned = f": it owns {shown(resource, quota.nominal)}"
    if quota.borrowing_limit is None:
        return f"{owned}, and borrows what others lend"
    return f"{owned}, and may borrow {shown(resource, quota.borrowing_limit)}"


def broken_promise(
    wanted: int,
    quota: QueueQuota | None,
    queue_name: str,
    flavor: str,
    resource: str,
    index: Index,
) -> Cause | None:
    """Whether the quota was meant to be large enough for `wanted`, and the nodes are not."""
    allocation = index.allocations.get(queue_name)
    if quota is None or allocation is None or wanted <= quota.nominal:
        return None
    nominal = _promised(allocation, flavor, resource)
    ready = condition(allocation.status.conditions, "Ready") or {}
    if nominal < wanted:
        return None
    message = str(ready.get("message", "")).rstrip(".")
    facts = (
        f"Team {allocation.team} was promised {shown(resource, nominal)} of {flavor}, and has "
        f"{shown(resource, quota.nominal)}: {message}."
    )
    if ready.get("reason") in (AllocationReason.OVERSUBSCRIBED, AllocationReason.NO_NODES_YET):
        cure = "an admin adds nodes, or reduces the allocations to what the nodes hold"
        return Cause(WaitReason.OVERSUBSCRIBED_QUOTA, facts, cure)
    if ready.get("reason") == AllocationReason.INSUFFICIENT_NODES:
        return Cause(WaitReason.NODES_DOWN, facts, "nodes of this type come back, or are added")
    return None


def _promised(allocation: ComputeAllocation, type_: str, resource: str) -> int:
    """A flavor has the name of its instance type."""
    for quota in allocation.status.quotas:
        if quota.instanceType == type_ and resource in quota.nominal:
            return amount(resource, quota.nominal[resource])
    return 0
