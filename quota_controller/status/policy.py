"""PURE. The status of the ClusterPolicy: who preempts, whether it is in place, what capacity is."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from cede.api import names
from cede.api.objects import NAMESPACES, Json
from cede.api.policy import ClusterPolicy, PolicyStatus, TypeStatus
from cede.api.reasons import LeaderReason, PolicyReason
from cede.api.resources import Quota, quantity, total
from cede.api.short_text import cut
from cede.api.support import OLDEST_KUEUE, judge, text_of
from cede.api.unreadable import count_unreadable
from cede.api.verdict import Verdict, with_verdict
from cede.kueue_settings import checks
from cede.kueue_settings import config as kueue_config
from cede.kueue_settings.managed_namespaces import guard_labels
from quota_controller.desired.capacity import Capacity
from quota_controller.desired.conflicts import Problems, failed
from quota_controller.desired.desired_object import SHARED
from quota_controller.desired.kueue_objects import removed_classes, types_with_old_topology
from quota_controller.desired.plan import Plan, Snapshot
from quota_controller.status.allocation import amounts_of_type
from quota_controller.status.lease_watchdog import RETURN_INTERVAL

GUARDS = (NAMESPACES, ("", names.GUARD_NAMESPACE))
SCHEDULER_LEADS = "SchedulerLeads"
KUEUE_CONFIGURED = "KueueConfigured"
KUBERNETES_SUPPORTED = "KubernetesSupported"
_MAX_LISTED_NODES = 3
# the most that the CRD allows
_MAX_REMOVED_CLASSES = 64
# so that two lists of nodes leave room for what to do
_MAX_NODE_NAME = 64


def policy_status(
    plan: Plan, snapshot: Snapshot, write_problems: Problems, now: float
) -> PolicyStatus | None:
    """The status of the policy; None when there is no policy.

    `write_problems` are those of the last writes, by owner.
    """
    policy = snapshot.policy
    if policy is None:
        return None
    generation = policy.metadata.generation
    conditions = policy.status.conditions
    labels = guard_labels(snapshot.live.get(GUARDS, {}))
    removed = sorted(removed_classes(policy.spec, snapshot.live))
    for type_, verdict in (
        (SCHEDULER_LEADS, _leader_verdict(policy, snapshot)),
        (KUBERNETES_SUPPORTED, Verdict(*judge(snapshot.kubernetes))),
        (KUEUE_CONFIGURED, checks.verdict(policy.spec, snapshot.kueue, labels)),
        (names.READY, _ready_verdict(policy, snapshot, write_problems, removed)),
    ):
        conditions = with_verdict(conditions, type_, verdict, generation=generation, now=now)
    owned = total(plan.owned.values())
    granted = total(plan.grants.granted.values())
    pods_ready = kueue_config.pods_ready_settings(snapshot.kueue)
    return PolicyStatus(
        observedGeneration=generation,
        conditions=conditions,
        leader=snapshot.leader or snapshot.returning,
        preemption="Cede" if plan.cede_preempts else "Kueue",
        podsReadyTimeoutSeconds=round(pods_ready.start_s),
        podsRecoveryTimeoutSeconds=round(pods_ready.recovery_s),
        removedPriorityClasses=removed[:_MAX_REMOVED_CLASSES],
        instanceTypes=[
            _type_status(capacity, owned, granted, plan.grants.unallocated)
            for capacity in plan.capacities.values()
        ],
    )


def unsynced_policy_status(
    policy: ClusterPolicy, read_errors: Mapping[str, str], now: float
) -> PolicyStatus:
    """The status while some kinds cannot be read; the last figures stay.

    `read_errors` has the error by kind.
    """
    kinds = ", ".join(sorted(read_errors))
    error = next(iter(read_errors.values()))
    oldest = text_of(OLDEST_KUEUE)
    verdict = Verdict(
        False,
        PolicyReason.CANNOT_READ,
        f"{kinds} cannot be read ({error}), so nothing is changed: install Kueue {oldest} or "
        f"newer, check the rights of {names.QUOTA_CONTROLLER}, or cure the fault of the API server",
    )
    generation = policy.metadata.generation
    conditions: list[Json] = with_verdict(
        policy.status.conditions, names.READY, verdict, generation=generation, now=now
    )
    return policy.status.model_copy(
        update={"observedGeneration": generation, "conditions": conditions}
    )


def _leader_verdict(policy: ClusterPolicy, snapshot: Snapshot) -> Verdict:
    seconds = policy.spec.preemption.watchdogSeconds
    if snapshot.returning:
        return Verdict(
            False,
            LeaderReason.RETURNING,
            f"{snapshot.returning} finishes passes again, but the one before stopped within "
            f"{RETURN_INTERVAL * seconds:.0f} s of its return: until then Kueue preempts by its "
            f"own rules and stops whole jobs, so that preemption does not change too often",
        )
    if not snapshot.leader:
        return Verdict(
            False,
            LeaderReason.NO_LEADER,
            f"no scheduler has finished a pass for {seconds} s, so Kueue preempts by its own rules "
            f"and stops whole jobs: check Deployment {names.SCHEDULER} in {names.SYSTEM_NAMESPACE}",
        )
    if policy.spec.mode == "Observe":
        return Verdict(
            True,
            LeaderReason.OBSERVING,
            "the mode is Observe: plans are only recorded, and Kueue preempts by its own rules",
        )
    return Verdict(True, LeaderReason.LEADS, "jobs cede: Kueue itself preempts nothing")


def _ready_verdict(
    policy: ClusterPolicy, snapshot: Snapshot, write_problems: Problems, removed: Sequence[str]
) -> Verdict:
    if SHARED in write_problems:
        return failed(write_problems[SHARED])
    if not policy.spec.instanceTypes:
        return Verdict(
            False,
            PolicyReason.NO_INSTANCE_TYPES,
            "instanceTypes is empty, so there is no quota: list the kinds of nodes",
        )
    overlapping = _overlapping_types(policy)
    if overlapping:
        return Verdict(
            False,
            PolicyReason.TYPES_OVERLAP,
            f"{' and '.join(overlapping)} select the same nodes, which count for the first one: "
            "set nodeLabels that tell them apart",
        )
    old_topology = types_with_old_topology(policy, snapshot.live)
    if old_topology:
        return Verdict(
            False,
            PolicyReason.TOPOLOGY_NOT_APPLIED,
            f"the flavor of {', '.join(old_topology)} keeps its topology and labels, because Kueue "
            "allows no change of them: give the type another name, or restore the topology and "
            "its nodeLabels",
        )
    if not snapshot.root_key:
        return Verdict(
            False,
            PolicyReason.ROOT_KEY_MISSING,
            f"Secret {names.ROOT_SECRET} in namespace {names.SYSTEM_NAMESPACE} has no entry "
            f"{names.SECRET_KEY}, so new teams get no key and no job can be asked to shrink: "
            f"restore the entry, or delete the Secret and restart {names.QUOTA_CONTROLLER} and "
            f"{names.SCHEDULER}",
        )
    unreadable = _unreadable(snapshot)
    if unreadable:
        return Verdict(False, PolicyReason.OBJECTS_UNREADABLE, unreadable)
    types = ", ".join(type_.name for type_ in policy.spec.instanceTypes)
    classes = ", ".join(class_.name for class_ in policy.spec.priorityClasses) or "none"
    message = f"instance types: {types}; priority classes: {classes}"
    if removed:
        message += (
            f"; no longer in the policy, and kept until no job has them: {', '.join(removed)}"
        )
    return Verdict(True, PolicyReason.READY, message)


def _unreadable(snapshot: Snapshot) -> str:
    """Which objects a controller cannot read; empty if all can be read. The scheduler reads all
    kinds that the webhook and the ledger read. It reads nothing while none leads."""
    by_reader = {names.QUOTA_CONTROLLER: count_unreadable(snapshot.unreadable)}
    if snapshot.leader or snapshot.returning:
        by_reader[names.SCHEDULER] = snapshot.unreadable_to_scheduler
    parts = [
        f"{objects.count} objects cannot be read by {reader}, and count as they last were or not "
        f"at all; the first is {objects.first}"
        for reader, objects in by_reader.items()
        if objects.count
    ]
    return f"{'; '.join(parts)}: update Cede, or report this" if parts else ""


def _overlapping_types(policy: ClusterPolicy) -> tuple[str, str] | None:
    """Two types of which one selects every node that the other selects."""
    for first, second in combinations(policy.spec.instanceTypes, 2):
        first_labels = first.selector.items()
        second_labels = second.selector.items()
        if first_labels <= second_labels or second_labels <= first_labels:
            return first.name, second.name
    return None


def _type_status(
    capacity: Capacity, owned: Quota, granted: Quota, unallocated: Quota
) -> TypeStatus:
    return TypeStatus(
        name=capacity.type.name,
        nodes=capacity.nodes,
        healthyNodes=capacity.healthy_nodes,
        message=_type_message(capacity, owned, granted),
        largestNode={
            name: quantity(name, capacity.largest_node[name]) for name in capacity.resources
        },
        healthy={name: quantity(name, capacity.healthy[name]) for name in capacity.resources},
        allocated=amounts_of_type(owned, capacity),
        unallocated=amounts_of_type(unallocated, capacity),
    )


def _type_message(capacity: Capacity, owned: Quota, granted: Quota) -> str:
    """What is wrong with the nodes of the type; empty when nothing is."""
    sentences = []
    keys = [(capacity.type.name, name) for name in capacity.resources]
    if capacity.declared_only:
        sentences.append("no node of this type exists: the figures are those of the policy")
    elif any(granted[key] > capacity.healthy[key[1]] for key in keys):
        sentences.append(
            "healthy nodes hold less than is granted: every quota is reduced in proportion"
        )
    if any(owned[key] > granted[key] for key in keys):
        down = capacity.nodes - capacity.healthy_nodes
        cure = f", wait for nodes to return ({down} of {capacity.nodes} down)" if down else ""
        sentences.append(
            "allocations ask for more than is granted, and what the others were granted stays "
            f"theirs: lower those that are not granted in full{cure}, or add nodes"
        )
    if capacity.degraded:
        sentences.append(
            f"{_describe_nodes(capacity.degraded)} with fewer accelerators or slices than the "
            "others: a pod that needs a whole node may find none"
        )
    if capacity.other_layout:
        sentences.append(
            f"{_describe_nodes(capacity.other_layout)} with other partitions than a whole node of "
            "the type: give such nodes a type of their own by nodeLabels"
        )
    return "; ".join(sentences)


def _describe_nodes(nodes: Sequence[str]) -> str:
    """`2 healthy nodes (a, b)`, with the first three names."""
    noun = "node" if len(nodes) == 1 else "nodes"
    listed = ", ".join(cut(name, _MAX_NODE_NAME) for name in nodes[:_MAX_LISTED_NODES])
    more = ", ..." if len(nodes) > _MAX_LISTED_NODES else ""
    return f"{len(nodes)} healthy {noun} ({listed}{more})"
