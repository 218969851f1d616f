"""PURE. The objects of Kueue that a policy and its allocations become."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from cede.api import guards, names, private_quota
from cede.api.allocation import ComputeAllocation
from cede.api.instance_type import InstanceType
from cede.api.kueue import Workload
from cede.api.objects import (
    CLUSTER_QUEUES,
    COHORTS,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    Json,
    is_true,
)
from cede.api.policy import ClusterPolicy, PolicySpec
from cede.api.resources import Quota, quantity
from quota_controller.desired.capacity import CPU_AND_MEMORY, counted_resources
from quota_controller.desired.desired_object import (
    SHARED,
    DesiredObject,
    LiveObjects,
    desired_object,
    owner_of,
)

WEIGHT = "cede.dev/weight"
"""Annotation of a WorkloadPriorityClass: its weight in the policy, which its value is not while the
ordering is FirstCome.

The quota_controller writes it, and reads it once the policy does not have the class any more.
"""


# --- what all teams share -------------------------------------------------------------------------
def shared_objects(
    policy: ClusterPolicy, unallocated: Quota, live: LiveObjects
) -> list[DesiredObject]:
    """Topologies, flavors, the cohort with the unallocated capacity, and the priority classes."""
    spec = policy.spec
    topology = _topology(spec)
    flavors = [_flavor(type_, topology, live) for type_ in spec.instanceTypes]
    own_quota = unallocated if spec.shareUnallocated else Quota()
    groups = resource_groups(spec.instanceTypes, own_quota, covered_resources(spec))
    cohort = desired_object(
        COHORTS, ("", names.COHORT), SHARED, {"spec": {"resourceGroups": groups}}
    )
    return [
        *([topology] if topology else []),
        *_older_topologies(flavors, topology, live),
        *flavors,
        cohort,
        *_priority_classes(spec, live),
    ]


def _topology(spec: PolicySpec) -> DesiredObject | None:
    """The levels by which pods are placed, if the policy has some.

    Its name is a hash of the levels, because Kueue allows no change of them.
    """
    if not spec.topology:
        return None
    name = f"{names.COHORT}-{sha256(' '.join(spec.topology).encode()).hexdigest()[:8]}"
    levels = [{"nodeLabel": level} for level in spec.topology]
    return desired_object(TOPOLOGIES, ("", name), SHARED, {"spec": {"levels": levels}})


def _older_topologies(
    flavors: Sequence[DesiredObject], topology: DesiredObject | None, live: LiveObjects
) -> list[DesiredObject]:
    """The topologies of former policies that a flavor still refers to, unchanged."""
    referred = {flavor.body["spec"].get("topologyName") for flavor in flavors}
    current = topology.key[1] if topology else None
    return [
        desired_object(TOPOLOGIES, key, SHARED, {"spec": {"levels": obj["spec"]["levels"]}})
        for (kind, key), obj in live.items()
        if kind == TOPOLOGIES and key[1] in referred and key[1] != current
    ]


def _flavor(
    type_: InstanceType, topology: DesiredObject | None, live: LiveObjects
) -> DesiredObject:
    """The flavor of an instance type.

    A flavor that has a topology keeps it, and its labels: Kueue allows no change of either (CEL
    rule of ResourceFlavor).
    """
    live_spec = live.get((RESOURCE_FLAVORS, ("", type_.name)), {}).get("spec", {})
    spec: Json = {"nodeLabels": dict(type_.selector)}
    if live_spec.get("topologyName"):
        spec = {name: live_spec[name] for name in ("nodeLabels", "topologyName")}
    elif topology:
        spec["topologyName"] = topology.key[1]
    return desired_object(RESOURCE_FLAVORS, ("", type_.name), SHARED, {"spec": spec})


def types_with_old_topology(policy: ClusterPolicy, live: LiveObjects) -> list[str]:
    """The instance types whose flavor has another topology or other labels than the policy."""
    topology = _topology(policy.spec)
    topology_name = topology.key[1] if topology else None
    types = []
    for type_ in policy.spec.instanceTypes:
        spec = live.get((RESOURCE_FLAVORS, ("", type_.name)), {}).get("spec", {})
        if not spec.get("topologyName"):
            continue
        if (spec["topologyName"], spec["nodeLabels"]) != (topology_name, type_.selector):
            types.append(type_.name)
    return types


def _priority_classes(spec: PolicySpec, live: LiveObjects) -> list[DesiredObject]:
    """Those of the policy, and those that it has removed, which keep their weight."""
    weights = {class_.name: class_.weight for class_ in spec.priorityClasses}
    weights |= {name: _weight(obj) for name, obj in removed_classes(spec, live).items()}
    contents: dict[str, Json] = {
        name: {"value": weight, "description": f"Weight {weight} of 100"}
        for name, weight in weights.items()
    }
    if spec.ordering == "FirstCome":
        equal = {"value": 0, "description": "All classes weigh the same: jobs go by age"}
        contents = dict.fromkeys(contents, equal)
    return [
        desired_object(
            PRIORITY_CLASSES,
            ("", name),
            SHARED,
            content,
            annotations={WEIGHT: str(weights[name])},
        )
        for name, content in contents.items()
    ]


def _weight(obj: Json) -> int:
    """The weight of a live class; its value if an earlier version of Cede wrote it."""
    note = (obj["metadata"].get("annotations") or {}).get(WEIGHT, "")
    return int(note) if re.fullmatch("[0-9]{1,3}", note) else int(obj["value"])


def removed_classes(spec: PolicySpec, live: LiveObjects) -> dict[str, Json]:
    """The live classes, by name, that were taken out of the policy."""
    names_of_policy = {class_.name for class_ in spec.priorityClasses}
    return {
        key[1]: obj
        for (kind, key), obj in live.items()
        if kind == PRIORITY_CLASSES and owner_of(obj) == SHARED and key[1] not in names_of_policy
    }


def classes_in_use(workloads: Iterable[Workload]) -> set[str]:
    """The classes of the Workloads that have not finished, also of those that wait."""
    return {
        workload.spec.priorityClassRef.name
        for workload in workloads
        if workload.spec.priorityClassRef
        and not is_true(workload.status.conditions, names.FINISHED)
    }


def covered_resources(spec: PolicySpec) -> list[str]:
    """Every resource of any type, in the order that all resource groups have.

    Kueue requires the same order in `coveredResources` and in every flavor.
    """
    resources = {name for type_ in spec.instanceTypes for name in counted_resources(type_)}
    return [*sorted(resources - set(CPU_AND_MEMORY)), *CPU_AND_MEMORY]


def resource_groups(
    types: Sequence[InstanceType],
    nominal: Quota,
    resources: Sequence[str],
    borrowing_limit: Quota | None = None,
    lending_limit: Quota | None = None,
) -> list[Json]:
    """One group of all types, with an amount of 0 for a resource that a type does not have.

    A limit of None is left out, which is no limit.
    """
    amounts = {"nominalQuota": nominal}
    if borrowing_limit is not None:
        amounts["borrowingLimit"] = borrowing_limit
    if lending_limit is not None:
        amounts["lendingLimit"] = lending_limit

    def entry(flavor: str, resource: str) -> Json:
        fields = {
            field: quantity(resource, quota[flavor, resource]) for field, quota in amounts.items()
        }
        return {"name": resource, **fields}

    flavors = []
    for type_ in types:
        entries = [entry(type_.name, resource) for resource in resources]
        flavors.append({"name": type_.name, "resources": entries})
    return [{"coveredResources": list(resources), "flavors": flavors}] if flavors else []


# --- the queue of a team --------------------------------------------------------------------------
def preemption(own_tasks: str, *, cede_preempts: bool) -> Json:
    """The queue's preemption: off while Cede preempts, else Kueue's own, which stops whole jobs."""
    if cede_preempts:
        return {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    return {"reclaimWithinCohort": "Any", "withinClusterQueue": own_tasks}


def cluster_queue(
    allocation: ComputeAllocation,
    spec: PolicySpec,
    granted: Quota,
    borrowing_limit: Quota | None,
    lending_limit: Quota | None,
    *,
    cede_preempts: bool,
    on_hold: bool,
) -> DesiredObject:
    """The team's queue. `queueingStrategy` is left out, because it belongs to the scheduler."""
    entries = (*allocation.spec.quotas, *allocation.spec.sharing.borrowLimits)
    type_names = {entry.instanceType for entry in entries}
    types = [type_ for type_ in spec.instanceTypes if type_.name in type_names]
    resources = covered_resources(spec)
    weight = allocation.spec.fairShareWeight if spec.idleCompute == "FairShare" else 1
    content = {
        "cohortName": names.COHORT,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": allocation.namespace}},
        "resourceGroups": resource_groups(
            types, granted, resources, borrowing_limit, lending_limit
        ),
        "preemption": preemption(allocation.spec.preemptOwnTasks, cede_preempts=cede_preempts),
        "fairSharing": {"weight": str(weight)},
        "stopPolicy": "Hold" if on_hold else "None",
    }
    name = allocation.metadata.name
    return desired_object(CLUSTER_QUEUES, ("", name), name, {"spec": content})


def with_private_quota(queue: DesiredObject, live: LiveObjects) -> DesiredObject:
    """The queue with the quota that the scheduler gave it for a moment, while a guard keeps as much
    from all others; without it there would be more quota than capacity."""
    live_queue = live.get(queue.object_id, {})
    note = private_quota.read(live_queue)
    if not note:
        return queue
    guard = live.get((CLUSTER_QUEUES, ("", guards.queue_name(note.cession))), {})
    if not guard.get("status", {}).get("reservingWorkloads"):
        return queue
    spec = queue.body["spec"] | {"resourceGroups": live_queue["spec"]["resourceGroups"]}
    return replace(queue, body=queue.body | {"spec": spec})


def as_it_is(queue: Json, own_tasks: str, *, cede_preempts: bool, on_hold: bool) -> DesiredObject:
    """The live queue with the preemption that all have. With `on_hold` it admits nothing more.

    Its quotas cannot be computed: there is no policy, or no allocation that can be read.
    """
    fields = ("cohortName", "namespaceSelector", "resourceGroups", "fairSharing", "stopPolicy")
    content = {name: queue["spec"][name] for name in fields if name in queue["spec"]}
    if "resourceGroups" in content:
        content["resourceGroups"] = private_quota.groups_before(queue)
    content["preemption"] = preemption(own_tasks, cede_preempts=cede_preempts)
    if on_hold:
        content["stopPolicy"] = "Hold"
    name = queue["metadata"]["name"]
    return desired_object(CLUSTER_QUEUES, ("", name), name, {"spec": content})
