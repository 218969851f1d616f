"""PURE. The quota_controller's plan on a copy of the objects: which quota each team would have."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import msgspec

from cede.api import names, private_quota
from cede.api.allocation import ComputeAllocation
from cede.api.budget import MonthUse
from cede.api.kueue import (
    ClusterQueue,
    ClusterQueueSpec,
    ClusterQueueStatus,
    Cohort,
    CohortSpec,
    LocalQueue,
    Node,
    Pod,
)
from cede.api.objects import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    Condition,
    Json,
    Kind,
    Meta,
)
from cede.api.pods import pod_requests
from cede.api.policy import ClusterPolicy
from cede.api.resources import Quota, Resources, parse, quantity
from cede.api.workload_identity import controller
from quota_controller.desired.desired_object import ObjectId
from quota_controller.desired.plan import Plan, Snapshot, make_plan
from quota_controller.status.allocation import allocation_statuses
from scheduler.quota.cohort import CohortQuota
from scheduler.snapshot.snapshot import RawObjects
from whatif.world import World

LEADER = "the scheduler that leads"


@dataclass(frozen=True)
class Planned:
    """A plan, and what it was made of."""

    snapshot: Snapshot
    plan: Plan

    @property
    def priorities(self) -> dict[str, int]:
        """By class: the priority that Kueue gives to a Workload of it."""
        bodies = {d.key[1]: d.body for d in self.plan.objects if d.kind == PRIORITY_CLASSES}
        return {name: int(body["value"]) for name, body in bodies.items()}

    def specs(self, kind: Kind) -> dict[str, Json]:
        """By name; of kinds without namespace."""
        return {d.key[1]: d.body["spec"] for d in self.plan.objects if d.kind == kind}


def plan_quota(
    objects: RawObjects,
    quota: CohortQuota,
    policy: ClusterPolicy,
    now: float,
    namespaces: Sequence[Json] = (),
    month_use: MonthUse | None = None,
) -> Planned:
    """`namespaces` may be left out: then none conflicts with an allocation."""
    live: dict[ObjectId, Json] = {
        (CLUSTER_QUEUES, ("", queue.metadata.name)): _raw_queue(queue, quota)
        for queue in objects.cluster_queues
    }
    for flavor in objects.resource_flavors:
        spec = {"nodeLabels": flavor.spec.nodeLabels, "topologyName": flavor.spec.topologyName}
        live[RESOURCE_FLAVORS, ("", flavor.metadata.name)] = {
            "metadata": _raw_metadata(flavor.metadata),
            "spec": spec,
        }
    live |= {(NAMESPACES, ("", raw["metadata"]["name"])): raw for raw in namespaces}
    snapshot = Snapshot(
        policy=policy,
        allocations=tuple(sorted(objects.allocations, key=lambda a: a.metadata.name)),
        nodes=_without_daemons(objects.nodes, objects.pods),
        daemon_sets=(),
        live=live,
        leader="" if policy.status.preemption == "Kueue" else LEADER,
        root_key=b"",
        previous_root_key=b"",
        now=now,
        month_use=month_use,
    )
    return Planned(snapshot, make_plan(snapshot))


def _raw_metadata(metadata: Meta) -> Json:
    return {
        "name": metadata.name,
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "generation": metadata.generation,
    }


def _raw_queue(queue: ClusterQueue, quota: CohortQuota) -> Json:
    """As the API server has it, with the usage as it would be."""
    counted = quota.queues.get(queue.metadata.name)
    usage = counted.usage if counted else Quota()
    nominal = {key: counted.quota(key).nominal for key in usage} if counted else {}
    by_flavor: dict[str, list[Json]] = defaultdict(list)
    for (flavor, resource), used in usage.items():
        borrowed = max(0, used - nominal[flavor, resource])
        amounts = {"total": quantity(resource, used), "borrowed": quantity(resource, borrowed)}
        by_flavor[flavor].append({"name": resource, **amounts})
    reserved = [{"name": name, "resources": rows} for name, rows in by_flavor.items()]
    status = {
        "flavorsReservation": reserved,
        "conditions": [asdict(condition) for condition in queue.status.conditions],
        "reservingWorkloads": queue.status.admittedWorkloads,
        "pendingWorkloads": queue.status.pendingWorkloads,
    }
    groups = private_quota.as_json(queue.spec.resourceGroups)
    spec = {"stopPolicy": queue.spec.stopPolicy, "resourceGroups": groups}
    return {"metadata": _raw_metadata(queue.metadata), "spec": spec, "status": status}


def _without_daemons(nodes: Iterable[Node], pods: Iterable[Pod]) -> tuple[Node, ...]:
    """The nodes without what pods of DaemonSets request of them: that is in no quota."""
    taken: dict[str, Resources] = defaultdict(Resources)
    for pod in pods:
        owner = controller(pod)
        if owner and owner.kind == "DaemonSet" and pod.spec.nodeName:
            taken[pod.spec.nodeName] += pod_requests(pod.spec)
    return tuple(_reduced(node, taken.get(node.metadata.name)) for node in nodes)


def _reduced(node: Node, taken: Mapping[str, int] | None) -> Node:
    if not taken:
        return node
    left = parse(node.status.allocatable)
    left.subtract(taken)
    allocatable: dict[str, str | int] = {
        name: quantity(name, max(0, amount)) for name, amount in left.items()
    }
    return replace(node, status=replace(node.status, allocatable=allocatable))


# --- what changes of it ---------------------------------------------------------------------------
class QuotaFollower:
    """Brings the quotas of a world to what the quota_controller would make of them. What it plans
    as it did `before` the question stays as it is in the cluster."""

    def __init__(self, before: Planned, policy: ClusterPolicy, namespaces: Sequence[Json]) -> None:
        self._policy = policy
        self._namespaces = namespaces
        self._month_use = before.snapshot.month_use
        self._queues = before.specs(CLUSTER_QUEUES)
        self._cohorts = before.specs(COHORTS)

    def update(self, world: World) -> bool:
        """Whether a quota changed."""
        objects, quota = world.objects, world.snapshot().quota
        planned = plan_quota(
            objects, quota, self._policy, world.now, self._namespaces, self._month_use
        )
        queues, cohorts = planned.specs(CLUSTER_QUEUES), planned.specs(COHORTS)
        changed = {name: spec for name, spec in queues.items() if spec != self._queues.get(name)}
        for name, spec in changed.items():
            world.queues[name] = _changed_queue(world.queues.get(name), name, spec)
        is_new_cohort = cohorts != self._cohorts
        if is_new_cohort:
            world.rest = replace(world.rest, cohorts=tuple(_cohorts(cohorts)))
        if changed:
            world.rest = replace(
                world.rest,
                local_queues=_local_queues(world, planned.plan),
                allocations=_reported(planned),
            )
        self._queues, self._cohorts = queues, cohorts
        return bool(changed) or is_new_cohort


def _reported(planned: Planned) -> tuple[ComputeAllocation, ...]:
    """With the statuses that the quota_controller writes, in which the scheduler reads budgets."""
    snapshot = planned.snapshot
    statuses = allocation_statuses(planned.plan, snapshot, {}, snapshot.now)
    return tuple(
        item.model_copy(update={"status": statuses[item.metadata.name]})
        for item in snapshot.allocations
    )


def _changed_queue(queue: ClusterQueue | None, name: str, spec: Json) -> ClusterQueue:
    """Kueue has read it. Its strategy is the scheduler's."""
    read = msgspec.convert(spec, ClusterQueueSpec, strict=False)
    if queue is None:
        labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE, names.ALLOCATION: name}
        active = ClusterQueueStatus((Condition(names.ACTIVE, "True"),))
        return ClusterQueue(Meta(name=name, labels=labels), read, active)
    version = f"{queue.metadata.resourceVersion}+"
    metadata = replace(queue.metadata, resourceVersion=version)
    spec_ = replace(read, queueingStrategy=queue.spec.queueingStrategy)
    return replace(queue, metadata=metadata, spec=spec_)


def _cohorts(specs: Mapping[str, Json]) -> Iterable[Cohort]:
    for name, spec in specs.items():
        yield Cohort(Meta(name=name), msgspec.convert(spec, CohortSpec, strict=False))


def _local_queues(world: World, plan: Plan) -> tuple[LocalQueue, ...]:
    """Those that exist, and those of new teams."""
    queues = {queue.metadata.key: queue for queue in world.rest.local_queues}
    for desired in plan.objects:
        if desired.kind == LOCAL_QUEUES and desired.key not in queues:
            queues[desired.key] = msgspec.convert(desired.content, LocalQueue, strict=False)
    return tuple(queues.values())


def with_allocation(objects: RawObjects, allocation: ComputeAllocation) -> RawObjects:
    """With this one, in place of one of the same name."""
    name = allocation.metadata.name
    others = (other for other in objects.allocations if other.metadata.name != name)
    return replace(objects, allocations=(*others, allocation))
