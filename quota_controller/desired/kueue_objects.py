"""PURE. The objects of a team and of all teams, as they are applied; and whether a live object
already says it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    SECRETS,
    SERVICES,
    TOPOLOGIES,
    Json,
    Key,
    Kind,
)
from cede.api.policy import ClusterPolicy, InstanceType, PolicySpec
from cede.api.resources import Quota, quantity
from quota_controller.desired.capacity import counted
from quota_controller.desired.drift import says

SHARED = names.POLICY_NAME
"""The allocation label of what belongs to no allocation."""


@dataclass(frozen=True)
class Target:
    """One object that should exist, and what we say of it."""

    kind: Kind
    key: Key
    body: Json
    # the allocation it comes from, or `SHARED`
    owner: str

    @property
    def at(self) -> tuple[Kind, Key]:
        return self.kind, self.key

    @property
    def content(self) -> Json:
        """What is compared: in a list, the server leaves out what kind its own objects are."""
        return {k: v for k, v in self.body.items() if k not in ("apiVersion", "kind")}

    def is_said_by(self, live: Json | None) -> bool:
        """Whether the live object says all of it already."""
        return live is not None and says(live, self.content)

    @property
    def words(self) -> str:
        namespace, name = self.key
        return f"{self.kind.kind} {name}" + (f" in namespace {namespace}" if namespace else "")


def target(
    kind: Kind, key: Key, owner: str, content: Json, labels: Mapping[str, str] | None = None
) -> Target:
    """An object of ours, with the labels that say so."""
    namespace, name = key
    ours = (
        {names.MANAGED_BY: names.MANAGED_BY_CEDE, names.ALLOCATION: owner}
        if labels is None
        else dict(labels)
    )
    meta: Json = {"name": name, "labels": ours} | ({"namespace": namespace} if namespace else {})
    return Target(
        kind,
        key,
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **content},
        owner,
    )


# --- what all teams share -------------------------------------------------------------------------
def shared(
    policy: ClusterPolicy, unallocated: Quota, live: Mapping[tuple[Kind, Key], Json]
) -> list[Target]:
    """Topology, flavors, the cohort with what is in no allocation, and the priority classes."""
    spec = policy.spec
    topology = _topology(spec)
    flavors = [
        _flavor(type_, topology[0].key[1] if topology else "", live) for type_ in spec.instanceTypes
    ]
    in_use = {flavor.body["spec"].get("topologyName") for flavor in flavors} - {
        one.key[1] for one in topology
    }
    topology += [
        target(TOPOLOGIES, key, SHARED, {"spec": {"levels": one["spec"]["levels"]}})
        for (kind, key), one in live.items()
        if kind == TOPOLOGIES and key[1] in in_use
    ]
    own = unallocated if spec.shareUnallocated else Quota()
    groups = resource_groups(spec.instanceTypes, own, covered(spec))
    cohort = target(COHORTS, ("", names.COHORT), SHARED, {"spec": {"resourceGroups": groups}})
    return [*topology, *flavors, cohort, *_priority_classes(spec)]


def _topology(spec: PolicySpec) -> list[Target]:
    """The levels pods are placed by, when the policy names some; named by its content, because
    Kueue lets no level change."""
    if not spec.topology:
        return []
    name = f"{names.COHORT}-{sha256(' '.join(spec.topology).encode()).hexdigest()[:8]}"
    return [
        target(
            TOPOLOGIES,
            ("", name),
            SHARED,
            {"spec": {"levels": [{"nodeLabel": level} for level in spec.topology]}},
        )
    ]


def _flavor(type_: InstanceType, topology: str, live: Mapping[tuple[Kind, Key], Json]) -> Target:
    """A flavor that has a topology keeps it, and the labels it came with: Kueue lets neither change
    (CEL on ResourceFlavor)."""
    there = live.get((RESOURCE_FLAVORS, ("", type_.name)), {}).get("spec", {})
    if there.get("topologyName"):
        return target(
            RESOURCE_FLAVORS,
            ("", type_.name),
            SHARED,
            {
                "spec": {"nodeLabels": there["nodeLabels"], "topologyName": there["topologyName"]},
            },
        )
    named = {"topologyName": topology} if topology else {}
    return target(
        RESOURCE_FLAVORS,
        ("", type_.name),
        SHARED,
        {"spec": {"nodeLabels": dict(type_.selector), **named}},
    )


def keeps_old_topology(policy: ClusterPolicy, live: Mapping[tuple[Kind, Key], Json]) -> list[str]:
    """The instance types whose flavors place pods by other levels, or select other nodes, than the
    policy says now."""
    wanted = next((one.key[1] for one in _topology(policy.spec)), None)
    out = []
    for type_ in policy.spec.instanceTypes:
        there = live.get((RESOURCE_FLAVORS, ("", type_.name)), {}).get("spec", {})
        if there.get("topologyName") and (there["topologyName"], there["nodeLabels"]) != (
            wanted,
            type_.selector,
        ):
            out.append(type_.name)
    return out


def _priority_classes(spec: PolicySpec) -> list[Target]:
    first_come = spec.ordering == "FirstCome"
    return [
        target(
            PRIORITY_CLASSES,
            ("", one.name),
            SHARED,
            {
                "value": 0 if first_come else one.weight,
                "description": "As all others: work goes by age"
                if first_come
                else f"Weight {one.weight} of 100",
            },
        )
        for one in spec.priorityClasses
    ]


def covered(spec: PolicySpec) -> list[str]:
    """Every resource quota is counted in, in the order of all resource groups: Kueue wants one
    order."""
    kinds = {name for type_ in spec.instanceTypes for name in counted(type_)} - {"cpu", "memory"}
    return [*sorted(kinds), "cpu", "memory"]


def resource_groups(
    types: Sequence[InstanceType],
    nominal: Quota,
    resources: Sequence[str],
    borrowing: Quota | None = None,
    lending: Quota | None = None,
) -> list[Json]:
    """One group of all types: every type lists every resource, with 0 of what it does not have. A
    limit that is None is none."""

    def one(flavor: str, resource: str) -> Json:
        entry: Json = {
            "name": resource,
            "nominalQuota": quantity(resource, nominal[flavor, resource]),
        }
        if borrowing is not None:
            entry["borrowingLimit"] = quantity(resource, borrowing[flavor, resource])
        if lending is not None:
            entry["lendingLimit"] = quantity(resource, lending[flavor, resource])
        return entry

    flavors = [
        {"name": type_.name, "resources": [one(type_.name, name) for name in resources]}
        for type_ in types
    ]
    return [{"coveredResources": list(resources), "flavors": flavors}] if flavors else []


# --- what a team has ------------------------------------------------------------------------------
def preemption(allocation: ComputeAllocation, *, cede_takes_back: bool) -> Json:
    """Never while Cede takes back; else Kueue's own: whole jobs are killed, owners do not wait for
    ever."""
    if cede_takes_back:
        return {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"}
    return {"reclaimWithinCohort": "Any", "withinClusterQueue": allocation.spec.preemptOwnTasks}


def cluster_queue(
    allocation: ComputeAllocation,
    spec: PolicySpec,
    granted: Quota,
    borrowing: Quota | None,
    lending: Quota | None,
    *,
    cede_takes_back: bool,
    held: bool,
) -> Target:
    """The team's queue. `queueingStrategy` is the scheduler's and never said here."""
    wanted = {
        entry.instanceType
        for entry in (*allocation.spec.quotas, *allocation.spec.sharing.borrowLimits)
    }
    types = [type_ for type_ in spec.instanceTypes if type_.name in wanted]
    weight = allocation.spec.fairShareWeight if spec.idleCompute == "FairShare" else 1
    content = {
        "cohortName": names.COHORT,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": allocation.namespace}},
        "resourceGroups": resource_groups(types, granted, covered(spec), borrowing, lending),
        "preemption": preemption(allocation, cede_takes_back=cede_takes_back),
        "fairSharing": {"weight": str(weight)},
        "stopPolicy": "Hold" if held else "None",
    }
    name = allocation.metadata.name
    return target(CLUSTER_QUEUES, ("", name), name, {"spec": content})


def without_policy(queue: Json, allocation: ComputeAllocation) -> Target:
    """The queue as it is, held if its allocation goes: there is nothing to compute it from. Nobody
    asks for a take-back now but Kueue."""
    ours = ("cohortName", "namespaceSelector", "resourceGroups", "fairSharing", "stopPolicy")
    content = {name: queue["spec"][name] for name in ours if name in queue["spec"]}
    content["preemption"] = preemption(allocation, cede_takes_back=False)
    if allocation.metadata.deletionTimestamp:
        content["stopPolicy"] = "Hold"
    name = allocation.metadata.name
    return target(CLUSTER_QUEUES, ("", name), name, {"spec": content})


def in_namespace(allocation: ComputeAllocation, key: str) -> list[Target]:
    """The team's namespace and what it holds of ours: local queue, peers Service, control Secret
    (`key`: its entry; empty: no Secret)."""
    owner = allocation.metadata.name
    namespace = allocation.namespace
    secret = target(
        SECRETS,
        (namespace, names.CONTROL_SECRET),
        owner,
        {"type": "Opaque", "data": {names.SECRET_KEY: key}},
    )
    return [
        _namespace(allocation),
        target(
            LOCAL_QUEUES, (namespace, names.LOCAL_QUEUE), owner, {"spec": {"clusterQueue": owner}}
        ),
        target(
            SERVICES,
            (namespace, names.PEERS_SERVICE),
            owner,
            {
                "spec": {
                    "clusterIP": "None",
                    "publishNotReadyAddresses": True,
                    "selector": {names.ELASTIC_POD: "true"},
                }
            },
        ),
        *([secret] if key else []),
    ]


def _namespace(allocation: ComputeAllocation) -> Target:
    owner = allocation.metadata.name
    reference = allocation.spec.namespace
    labels = {names.TEAM: allocation.team, names.ALLOCATION: owner}
    # what we adopt keeps its own manager
    if not (reference and reference.adopt):
        labels[names.MANAGED_BY] = names.MANAGED_BY_CEDE
    return target(NAMESPACES, ("", allocation.namespace), owner, {}, labels)
