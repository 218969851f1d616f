"""PURE. What all API objects have in common: kinds, keys, metadata, conditions, times."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from cede.api.short_text import cut

Json = dict[str, Any]
Key = tuple[str, str]
"""(namespace, name). The namespace of a cluster-scoped object is empty."""


# The kinds are constants. Compared and hashed by their fields, they took a twentieth of a pass of
# the quota_controller over 1,000 teams.
@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of object: its names in URLs and in manifests. It is equal to itself only."""

    # empty for the core group
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, key: Key | None = None, *, namespace: str = "", subresource: str = "") -> str:
        """The URL path of the object `key`, or of the collection, maybe in one `namespace`."""
        namespace, name = key or (namespace, "")
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{quote(name, safe=':')}"
        if subresource:
            path += f"/{subresource}"
        return path


@dataclass(frozen=True, slots=True)
class OwnerReference:
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


OURS = ("cede.dev/", "kueue.x-k8s.io/")
"""The prefixes of the annotations that we read."""


@dataclass(frozen=True, slots=True)
class Meta:
    """The metadata that we read. The fields have their names in the API."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    # null in templates
    creationTimestamp: str | None = ""
    deletionTimestamp: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    ownerReferences: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        """Of the annotations, only those that we read are kept: others may be large, such as
        kubectl's copy of the whole object."""
        kept = {name: text for name, text in self.annotations.items() if name.startswith(OURS)}
        if len(kept) < len(self.annotations):
            object.__setattr__(self, "annotations", kept)

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def created(self) -> float:
        """Unix seconds."""
        return unix(self.creationTimestamp)


class Projection(Protocol):
    """The fields of an object that we read, as a frozen class decoded from the server's bytes."""

    @property
    def metadata(self) -> Meta: ...


@dataclass(frozen=True, slots=True)
class Condition:
    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    # null if it was never set
    lastTransitionTime: str | None = ""
    observedGeneration: int = 0


C = TypeVar("C", Condition, Json)
MAX_CONDITION_MESSAGE = 32768


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
    """The conditions with this one added or replaced; the status None is `Unknown`.

    The transition time changes only with the status (Kubernetes API conventions).
    """
    status_text = "Unknown" if status is None else str(status)
    by_type = {entry["type"]: dict(entry) for entry in conditions}
    old = by_type.get(type_, {})
    since = old.get("lastTransitionTime") if old.get("status") == status_text else None
    by_type[type_] = {
        "type": type_,
        "status": status_text,
        "reason": str(reason),
        "message": cut(message, MAX_CONDITION_MESSAGE),
        "observedGeneration": generation,
        "lastTransitionTime": since or rfc3339(now),
    }
    return list(by_type.values())


def version(obj: Json | None) -> int:
    """The resourceVersion as a number; 0 for None.

    The versions of one kind only grow, and clients may compare them since Kubernetes 1.35.
    """
    return int(obj["metadata"].get("resourceVersion") or 0) if obj else 0


def unix(timestamp: str | None) -> float:
    """Unix seconds of an RFC 3339 time; 0.0 for None or an empty one."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0


def unix_or_zero(text: str) -> float:
    """0.0 if the text is not a time: users may write anything into annotations."""
    try:
        return unix(text)
    except (ValueError, OverflowError):
        return 0.0


def rfc3339(seconds: float, *, micro: bool = False) -> str:
    """The API's text of a time: whole seconds, or microseconds where it expects MicroTime.

    Leases and events have MicroTime.
    """
    stamp = datetime.fromtimestamp(seconds, UTC)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


# --- the kinds that we use ------------------------------------------------------------------------
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
# whose a token is
TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
# what somebody may do
SUBJECT_ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
# what its caller may do
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
LEADER_WORKER_SETS = Kind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
PODS = Kind("", "v1", "pods", "Pod")
RESOURCE_QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota")
SECRETS = Kind("", "v1", "secrets", "Secret")
SERVICES = Kind("", "v1", "services", "Service")
NETWORK_POLICIES = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
JOBS = Kind("batch", "v1", "jobs", "Job")
JOB_SETS = Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
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
