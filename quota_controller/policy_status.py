"""PURE. What an admin reads of the policy: who takes back, whether it is in place, whether Kueue is set as it wants, what there is."""

from collections.abc import Iterable, Mapping

from cede.api import names
from cede.api.objects import set_condition
from cede.api.policy import ClusterPolicy, PolicyStatus, TypeStatus
from cede.api.resources import Quota, quantity, total
from quota_controller import kueue_settings
from quota_controller.bodies import SHARED, keeps_old_topology
from quota_controller.plan import Plan, Seen
from quota_controller.problems import Problems
from quota_controller.quotas import Supply
from quota_controller.status import amounts

SCHEDULER_LEADS = "SchedulerLeads"
KUEUE_CONFIGURED = "KueueConfigured"


def policy(plan: Plan, seen: Seen, clashes: Problems, now: float) -> PolicyStatus | None:
    """The status of the policy, when there is one."""
    if not (found := seen.policy):
        return None
    generation = found.metadata.generation
    leads, reason, message = _leads(found, seen.leader)
    conditions = set_condition(found.status.conditions, SCHEDULER_LEADS, leads, reason, message, generation=generation, now=now)
    configured, reason, message = kueue_settings.verdict(found.spec, seen.kueue)
    conditions = set_condition(conditions, KUEUE_CONFIGURED, configured, reason, message, generation=generation, now=now)
    ready, reason, message = _policy_ready(found, seen, clashes)
    conditions = set_condition(conditions, names.READY, ready, reason, message, generation=generation, now=now)
    allocated = total(plan.owns.values())
    return PolicyStatus(
        observedGeneration=generation, conditions=conditions, leader=seen.leader,
        preemption="Cede" if plan.cede_takes_back else "Kueue",
        instanceTypes=[_type(one, plan, allocated) for one in plan.supply.values()],
    )  # fmt: skip


def unheard(troubles: Mapping[str, str]) -> str:
    """What is said of kinds that cannot be read. `troubles`: kind → why."""
    kinds, why = ", ".join(sorted(troubles)), next(iter(troubles.values()))
    cure = f"install Kueue {'.'.join(map(str, kueue_settings.OLDEST))} or newer, or see to the rights of {names.QUOTA_CONTROLLER}"
    return f"{kinds} cannot be read ({why}), so all stays as it is: {cure}"


def deaf(found: ClusterPolicy, message: str, now: float) -> PolicyStatus:
    """The status while something that everything hangs on cannot be read: the last figures stand."""
    generation = found.metadata.generation
    conditions = set_condition(found.status.conditions, names.READY, False, "CannotRead", message, generation=generation, now=now)
    return found.status.model_copy(update={"observedGeneration": generation, "conditions": conditions})


def _leads(found: ClusterPolicy, leader: str) -> tuple[bool, str, str]:
    if leader and found.spec.mode == "Observe":
        return True, "Observing", "the mode is Observe: take-backs are recorded only, Kueue preempts by its own rules"
    if leader:
        return True, "Leads", "jobs cede: Kueue itself preempts nothing"
    since = found.spec.takeBack.watchdogSeconds
    cure = f"see to Deployment {names.SCHEDULER} in {names.SYSTEM_NAMESPACE}"
    return (
        False,
        "NoLeader",
        f"no scheduler has led for {since} s, so Kueue preempts by its own rules, by killing: {cure}",
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
            f"{overlapping} would select the same nodes, which count for the first: tell them apart by nodeLabels",
        )
    if kept := ", ".join(keeps_old_topology(found, seen.live)):
        cure = "name the type anew to change its levels or its nodeLabels, or put them back"
        return False, "TopologyKept", f"the flavor of {kept} keeps its topology and labels, Kueue lets neither change: {cure}"
    types = ", ".join(one.name for one in found.spec.instanceTypes)
    classes = ", ".join(one.name for one in found.spec.priorityClasses) or "none"
    return True, "InPlace", f"instance types: {types}; priority classes: {classes}"


def _overlapping(found: ClusterPolicy) -> str:
    """Two types of which one selects everything the other does."""
    types: Iterable[tuple[str, Mapping[str, str]]] = [(one.name, one.selector) for one in found.spec.instanceTypes]
    seen: list[tuple[str, Mapping[str, str]]] = []
    for name, selector in types:
        for other, before in seen:
            if before.items() <= selector.items() or selector.items() <= before.items():
                return f"{other} and {name}"
        seen.append((name, selector))
    return ""


def _type(one: Supply, plan: Plan, allocated: Quota) -> TypeStatus:
    flavor = one.type.name
    missing = {name: allocated[flavor, name] - one.healthy[name] for name in one.resources}
    message = ""
    if one.promised:
        message = "no node of this type exists: the figures are the policy's"
    elif any(value > 0 for value in missing.values()):
        message = "allocations own more than the healthy nodes hold: every quota is cut in proportion"
    elif one.damaged:
        message = f"{one.damaged} healthy nodes offer fewer accelerators than the others: a pod that needs a whole node may wait there"
    elif one.otherwise:
        message = f"{one.otherwise} healthy nodes are partitioned otherwise than most: give them a type of their own by nodeLabels"
    return TypeStatus(
        name=flavor, nodes=one.nodes, healthyNodes=one.healthy_nodes, message=message,
        whole={name: quantity(name, one.largest[name]) for name in one.resources},
        healthy={name: quantity(name, one.healthy[name]) for name in one.resources},
        allocated=amounts(allocated, one), unallocated=amounts(plan.shares.unallocated, one),
    )  # fmt: skip
