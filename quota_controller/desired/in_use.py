"""PURE. What running jobs use is not taken away: a queue goes, or leaves its namespace, drained."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from cede.api import private_quota
from cede.api.allocation import ComputeAllocation
from cede.api.objects import CLUSTER_QUEUES, NAMESPACES, Json, Key, condition
from cede.api.reasons import AllocationReason
from cede.api.resources import Quota, amount
from quota_controller.desired import kueue_objects
from quota_controller.desired.conflicts import (
    Problem,
    Problems,
    ownership_conflicts,
    reserved_namespaces,
)
from quota_controller.desired.desired_object import SHARED, DesiredObject, LiveObjects, owner_of


def is_drained(name: str, live: LiveObjects) -> bool:
    """Whether no workload uses the queue's quota, and Kueue has confirmed that it is on hold."""
    queue = live.get((CLUSTER_QUEUES, ("", name)))
    if queue is None:
        return True
    active = condition(queue.get("status", {}).get("conditions", []), "Active")
    stopped = active is not None and active["status"] == "False"
    on_hold = queue["spec"].get("stopPolicy") == "Hold"
    return on_hold and stopped and not reserving_workloads(name, live)


def reserving_workloads(name: str, live: LiveObjects) -> int:
    """How many workloads hold quota of this queue."""
    queue = live.get((CLUSTER_QUEUES, ("", name))) or {}
    return int((queue.get("status") or {}).get("reservingWorkloads") or 0)


# --- queues ---------------------------------------------------------------------------------------
def queues_without_spec(
    allocations: Iterable[ComputeAllocation], unread: Collection[str], live: LiveObjects
) -> dict[str, Json]:
    """By name, the teams' queues that stay although the spec of their allocation is not known.

    Either this version cannot read the allocation, or there is none, such as after an installation
    that follows an uninstall. A queue without an allocation stays until it is drained.
    """
    known = {allocation.metadata.name for allocation in allocations}
    return {
        key[1]: obj
        for (kind, key), obj in live.items()
        if kind == CLUSTER_QUEUES
        and owner_of(obj) == key[1]
        and key[1] not in known
        and (key[1] in unread or not is_drained(key[1], live))
    }


def as_they_are(
    queues: Mapping[str, Json], unread: Collection[str], live: LiveObjects, *, cede_preempts: bool
) -> list[DesiredObject]:
    """These queues with the preemption that all have; on hold if there is no allocation.

    The ClusterPolicy reports what is wrong with them.
    """
    objects = []
    for name, queue in queues.items():
        desired = kueue_objects.as_it_is(
            queue, "Never", cede_preempts=cede_preempts, on_hold=name not in unread
        )
        if cede_preempts:
            desired = kueue_objects.with_private_quota(desired, live)
        objects.append(replace(desired, owner=SHARED))
    return objects


def nominal_quota(queue: Json) -> Quota:
    """The nominal quota of a raw ClusterQueue; without private quota."""
    quota = Quota()
    groups = private_quota.groups_before(queue) if queue["spec"].get("resourceGroups") else []
    for flavor in (flavor for group in groups for flavor in group["flavors"]):
        for resource in flavor["resources"]:
            value = amount(resource["name"], resource.get("nominalQuota") or 0)
            quota[flavor["name"], resource["name"]] += value
    return quota


# --- namespaces -----------------------------------------------------------------------------------
def current_namespaces(
    allocations: Iterable[ComputeAllocation], live: LiveObjects
) -> dict[str, str]:
    """By allocation: the namespace that is labelled for it and that its queue admits jobs from.

    Only there can its jobs hold quota. One that is being deleted does not count. Until the queue is
    drained, the team keeps its last namespace although somebody changed that label or selector.
    """
    current = {}
    for (kind, (_, name)), queue in live.items():
        if kind != CLUSTER_QUEUES or owner_of(queue) != name:
            continue
        selector = queue["spec"].get("namespaceSelector") or {}
        selected = (selector.get("matchLabels") or {}).get("kubernetes.io/metadata.name", "")
        namespace = live.get((NAMESPACES, ("", selected)))
        if namespace is not None and _may_be_of(name, namespace) and owner_of(namespace):
            current[name] = selected
    for allocation in allocations:
        name = allocation.metadata.name
        if name in current or is_drained(name, live):
            continue
        if last := _last_namespace(allocation, live):
            current[name] = last
    return current


def _last_namespace(allocation: ComputeAllocation, live: LiveObjects) -> str:
    """The one in the status, else one that is labelled for the allocation; empty if there is none.

    A version before emptied the status during a conflict.
    """
    name, last = allocation.metadata.name, allocation.status.namespace
    namespace = live.get((NAMESPACES, ("", last)))
    if last and (namespace is None or _may_be_of(name, namespace)):
        return last
    labelled = (
        key[1]
        for (kind, key), obj in live.items()
        if kind == NAMESPACES and owner_of(obj) == name and _may_be_of(name, obj)
    )
    return min(labelled, default="")


def _may_be_of(name: str, namespace: Json) -> bool:
    is_deleted = bool(namespace["metadata"].get("deletionTimestamp"))
    return owner_of(namespace) in ("", name) and not is_deleted


@dataclass(frozen=True)
class Placement:
    """The allocations, each with the namespace in its status that it has; empty if it has none."""

    allocations: tuple[ComputeAllocation, ...]
    # nothing of these is written to any namespace, and nothing is taken away
    conflicts: Problems
    # teams that shall have another namespace and whose jobs hold quota in the one they have
    waiting: Problems


def place(
    allocations: Iterable[ComputeAllocation], live: LiveObjects, controllers: Collection[str]
) -> Placement:
    """A team keeps its namespace during a conflict, and until its queue is drained. One whose
    namespace became reserved is written nothing there meanwhile."""
    allocations = list(allocations)
    current = current_namespaces(allocations, live)
    present = [_in_namespace(a, _present_namespace(a, current, live)) for a in allocations]
    conflicts = ownership_conflicts(present, live, controllers, current)
    placed = []
    waiting = {}
    for allocation in present:
        name = allocation.metadata.name
        wanted = allocation.wanted_namespace
        if name in conflicts:
            placed.append(allocation)
        elif current.get(name, wanted) == wanted or is_drained(name, live):
            placed.append(_in_namespace(allocation, wanted))
        else:
            placed.append(allocation)
            waiting[name] = _in_use(allocation, live)
    conflicts |= reserved_namespaces({name: current[name] for name in waiting}, controllers)
    return Placement(tuple(placed), conflicts, waiting)


def _in_namespace(allocation: ComputeAllocation, namespace: str) -> ComputeAllocation:
    """The allocation with this namespace in its status."""
    if allocation.status.namespace == namespace:
        return allocation
    status = allocation.status.model_copy(update={"namespace": namespace})
    return allocation.model_copy(update={"status": status})


def _present_namespace(
    allocation: ComputeAllocation, current: Mapping[str, str], live: LiveObjects
) -> str:
    """The last one counts until another allocation has it, also while it does not exist."""
    name, last = allocation.metadata.name, allocation.status.namespace
    namespace = live.get((NAMESPACES, ("", last)))
    is_lost = namespace is not None and owner_of(namespace) not in ("", name)
    return current.get(name, "" if is_lost else last)


def _in_use(allocation: ComputeAllocation, live: LiveObjects) -> Problem:
    return Problem(
        AllocationReason.NAMESPACE_IN_USE,
        f"the team moves to namespace {allocation.wanted_namespace} when none of its workloads "
        f"holds quota in namespace {allocation.namespace}, now "
        f"{reserving_workloads(allocation.metadata.name, live)}: set active to false until then, "
        "so that no new one starts, or name the former namespace again",
    )


def abandoned_namespaces(
    staying: Iterable[ComputeAllocation], kept: Collection[str], live: LiveObjects
) -> tuple[tuple[Key, str], ...]:
    """(key, uid) of those with the label of an allocation that does not have them (any more)."""
    present = {(a.namespace, a.metadata.name) for a in staying}
    abandoned = []
    for (kind, key), obj in live.items():
        owner = owner_of(obj)
        if kind != NAMESPACES or not owner or owner in kept:
            continue
        if (key[1], owner) not in present:
            abandoned.append((key, obj["metadata"].get("uid", "")))
    return tuple(abandoned)
