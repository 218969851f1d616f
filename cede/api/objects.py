"""How the API server spells things: kinds, keys, metadata, conditions, times."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

Json = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is the empty string."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of the API: what is needed to name it in a URL and in an object."""

    # "" for the core group
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, key: Key | None = None, *, namespace: str = "", subresource: str = "") -> str:
        """URL path of the object `key`, or of the collection (of `namespace`, or of the whole
        cluster)."""
        namespace, name = key or (namespace, "")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return (
            root
            + scope
            + f"/{self.plural}"
            + (f"/{quote(name, safe=':')}" if name else "")
            + (f"/{subresource}" if subresource else "")
        )


@dataclass(frozen=True, slots=True)
class OwnerReference:
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata we read. Field names as on the wire."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    # templates write null
    creationTimestamp: str | None = ""
    deletionTimestamp: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    ownerReferences: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def created(self) -> float:
        """Unix seconds."""
        return unix(self.creationTimestamp)


class Projection(Protocol):
    """The part of an object that we read: a frozen class decoded straight from the server's
    bytes."""

    @property
    def metadata(self) -> Meta: ...


@dataclass(frozen=True, slots=True)
class Condition:
    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    # a Go time that was never set is written as null
    lastTransitionTime: str | None = ""
    observedGeneration: int = 0


C = TypeVar("C", Condition, Json)


def condition(conditions: Iterable[C], type_: str) -> C | None:
    """The condition of this type, of a decoded or a raw object; None when it is not there."""
    for entry in conditions:
        entry_type = entry["type"] if isinstance(entry, dict) else entry.type
        if entry_type == type_:
            return entry
    return None


def is_true(conditions: Iterable[C], type_: str) -> bool:
    entry = condition(conditions, type_)
    if isinstance(entry, dict):
        return bool(entry["status"] == "True")
    return entry is not None and entry.status == "True"


def set_condition(
    conditions: Iterable[Mapping[str, Any]],
    type_: str,
    status: bool | None,
    reason: str,
    message: str,
    *,
    generation: int,
    now: float,
) -> list[Json]:
    """The conditions with this one in it; its transition time moves only when its status does
    (Kubernetes API conventions)."""
    status_text = "Unknown" if status is None else str(status)
    old = {c["type"]: dict(c) for c in conditions}
    before = old.get(type_, {})
    since = before.get("lastTransitionTime") if before.get("status") == status_text else None
    old[type_] = {
        "type": type_,
        "status": status_text,
        "reason": str(reason),
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": since or rfc3339(now),
    }
    return list(old.values())


def version(obj: Json | None) -> int:
    """Versions of one kind only grow, and may be compared since Kubernetes 1.35; 0 for what is not
    there."""
    return int(obj["metadata"].get("resourceVersion") or 0) if obj else 0


def unix(timestamp: str | None) -> float:
    """Unix seconds of an RFC 3339 time; 0.0 for an absent one."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


def rfc3339(seconds: float, *, micro: bool = False) -> str:
    """The server's spelling of a time: whole seconds, or six digits where it wants MicroTime
    (leases, events)."""
    stamp = datetime.fromtimestamp(seconds, UTC)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


# --- the kinds we touch ---------------------------------------------------------------------------
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
PODS = Kind("", "v1", "pods", "Pod")
SECRETS = Kind("", "v1", "secrets", "Secret")
SERVICES = Kind("", "v1", "services", "Service")
EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Kind("batch", "v1", "jobs", "Job")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE_BINDINGS = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
WORKLOADS = Kind("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
CLUSTER_QUEUES = Kind(
    "kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False
)
COHORTS = Kind("kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", namespaced=False)
LOCAL_QUEUES = Kind("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
RESOURCE_FLAVORS = Kind(
    "kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False
)
TOPOLOGIES = Kind("kueue.x-k8s.io", "v1beta2", "topologies", "Topology", namespaced=False)
PRIORITY_CLASSES = Kind(
    "kueue.x-k8s.io",
    "v1beta2",
    "workloadpriorityclasses",
    "WorkloadPriorityClass",
    namespaced=False,
)
POLICIES = Kind("cede.dev", "v1alpha1", "clusterpolicies", "ClusterPolicy", namespaced=False)
ALLOCATIONS = Kind(
    "cede.dev", "v1alpha1", "computeallocations", "ComputeAllocation", namespaced=False
)
CESSIONS = Kind("cede.dev", "v1alpha1", "cessions", "Cession", namespaced=False)
