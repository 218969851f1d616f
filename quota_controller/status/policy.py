"""PURE. What an admin reads of the policy: who takes back, whether it is in place, whether Kueue is
set as it wants, what there is."""

from collections.abc import Iterable, Mapping, Sequence

from cede.api import names
from cede.api.objects import set_condition
from cede.api.policy import ClusterPolicy, PolicyStatus, TypeStatus
from cede.api.resources import Quota, quantity, total
from quota_controller.desired.capacity import Supply
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.kueue_objects import SHARED, keeps_old_topology
from quota_controller.desired.plan import Plan, Seen
from quota_controller.status import kueue_config
from quota_controller.status.allocation import amounts

SCHEDULER_LEADS = "SchedulerLeads"
KUEUE_CONFIGURED = "KueueConfigured"


def policy_status(plan: Plan, seen: Seen, clashes: Problems, now: float) -> PolicyStatus | None:
    """The status of the policy, when there is one."""
    if not (found := seen.policy):
        return None
    generation = found.metadata.generation
    leads, reason, message = _leads(found, seen.leader)
    conditions = set_condition(
        found.status.conditions,
        SCHEDULER_LEADS,
        leads,
        reason,
        message,
        generation=generation,
        now=now,
    )
    configured, reason, message = kueue_config.verdict(found.spec, seen.kueue)
    conditions = set_condition(
        conditions, KUEUE_CONFIGURED, configured, reason, message, generation=generation, now=now
    )
    ready, reason, message = _policy_ready(found, seen, clashes)
    conditions = set_condition(
        conditions, names.READY, ready, reason, message, generation=generation, now=now
    )
    allocated = total(plan.owns.values())
    return PolicyStatus(
        observedGeneration=generation,
        conditions=conditions,
        leader=seen.leader,
        preemption="Cede" if plan.cede_takes_back else "Kueue",
        instanceTypes=[_type(one, plan, allocated) for one in plan.supply.values()],
    )


def unsynced_policy_status(
    found: ClusterPolicy, troubles: Mapping[str, str], now: float
) -> PolicyStatus:
    """The status while kinds cannot be read: the last figures stand. `troubles`: kind → why."""
    kinds = ", ".join(sorted(troubles))
    why = next(iter(troubles.values()))
    cure = (
        f"install Kueue {'.'.join(map(str, kueue_config.OLDEST))} or newer, or see to the "
        f"rights of {names.QUOTA_CONTROLLER}"
    )
    message = f"{kinds} cannot be read ({why}), so all stays as it is: {cure}"
    generation = found.metadata.generation
    conditions = set_condition(
        found.status.conditions,
        names.READY,
        False,
        "CannotRead",
        message,
        generation=generation,
        now=now,
    )
    return found.status.model_copy(
        update={"observedGeneration": generation, "conditions": conditions}
    )


def _leads(found: ClusterPolicy, leader: str) -> tuple[bool, str, str]:
    if leader and found.spec.mode == "Observe":
        return (
            True,
            "Observing",
            "the mode is Observe: take-backs are recorded only, Kueue preempts by its own rules",
        )
    if leader:
        return True, "Leads", "jobs cede: Kueue itself preempts nothing"
    since = found.spec.preemption.watchdogSeconds
    cure = f"see to Deployment {names.SCHEDULER} in {names.SYSTEM_NAMESPACE}"
    return (
        False,
        "NoLeader",
        (
            f"no scheduler has led for {since} s, so Kueue preempts by its own rules, by killing: "
            f"{cure}"
        ),
    )


def _policy_ready(found: ClusterPolicy, seen: Seen, clashes: Problems) -> tuple[bool, str, str]:
    if SHARED in clashes:
        return False, *clashes[SHARED]
    if not found.spec.instanceTypes:
        return (
            False,
            "NoInstanceTypes",
            "instanceTypes is empty, so no quota can be given: name the kinds of node there are",
        )
    overlapping = _overlapping(found)
    if overlapping:
        return (
            False,
            "TypesOverlap",
            (
                f"{overlapping} would select the same nodes, which count for the first: tell them "
                f"apart by nodeLabels"
            ),
        )
    if kept := ", ".join(keeps_old_topology(found, seen.live)):
        cure = "name the type anew to change its levels or its nodeLabels, or put them back"
        return (
            False,
            "TopologyKept",
            (
                f"the flavor of {kept} keeps its topology and labels, Kueue lets neither change: "
                f"{cure}"
            ),
        )
    if not seen.root:
        where = f"Secret {names.ROOT_SECRET} in namespace {names.SYSTEM_NAMESPACE}"
        cure = (
            f"put its entry {names.SECRET_KEY} back, or delete the Secret and restart "
            f"{names.QUOTA_CONTROLLER} and {names.SCHEDULER}"
        )
        return (
            False,
            "RootKeyLost",
            (
                f"{where} holds no {names.SECRET_KEY}, so a new team gets none and no job can be "
                f"asked to shrink: {cure}"
            ),
        )
    types = ", ".join(one.name for one in found.spec.instanceTypes)
    classes = ", ".join(one.name for one in found.spec.priorityClasses) or "none"
    return True, "InPlace", f"instance types: {types}; priority classes: {classes}"


def _overlapping(found: ClusterPolicy) -> str:
    """Two types of which one selects everything the other does."""
    types: Iterable[tuple[str, Mapping[str, str]]] = [
        (one.name, one.selector) for one in found.spec.instanceTypes
    ]
    seen: list[tuple[str, Mapping[str, str]]] = []
    for name, selector in types:
        for other, before in seen:
            if before.items() <= selector.items() or selector.items() <= before.items():
                return f"{other} and {name}"
        seen.append((name, selector))
    return ""


def _type(one: Supply, plan: Plan, allocated: Quota) -> TypeStatus:
    flavor = one.type.name
    missing = any(allocated[flavor, name] > one.healthy[name] for name in one.resources)
    said = []
    if one.promised:
        said.append("no node of this type exists: the figures are the policy's")
    elif missing:
        said.append(
            "allocations own more than the healthy nodes hold: every quota is cut in proportion"
        )
    if one.damaged:
        said.append(
            f"{_some(one.damaged)} offer fewer accelerators or slices than the others: a pod "
            f"that "
            f"needs a whole node may wait there"
        )
    if one.otherwise:
        said.append(
            f"{_some(one.otherwise)} offer other partitions than a whole node of the type: "
            f"give "
            f"them a type of their own by nodeLabels"
        )
    return TypeStatus(
        name=flavor,
        nodes=one.nodes,
        healthyNodes=one.healthy_nodes,
        message="; ".join(said),
        whole={name: quantity(name, one.largest[name]) for name in one.resources},
        healthy={name: quantity(name, one.healthy[name]) for name in one.resources},
        allocated=amounts(allocated, one),
        unallocated=amounts(plan.shares.unallocated, one),
    )


def _some(nodes: Sequence[str]) -> str:
    """`2 healthy nodes (a, b)`: the first three by name."""
    more = ", ..." if len(nodes) > 3 else ""
    return (
        f"{len(nodes)} healthy {'node' if len(nodes) == 1 else 'nodes'} "
        f"({', '.join(nodes[:3])}{more})"
    )
