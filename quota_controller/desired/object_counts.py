"""PURE. How many objects a team may have in its namespace."""

from cede.api.objects import DEPLOYMENTS, JOBS, PODS, RESOURCE_QUOTAS, Json, Kind
from quota_controller.desired.desired_object import DesiredObject, desired_object

OBJECT_COUNTS = "cede-objects"
"""The ResourceQuota in the namespaces that Cede creates. The quota_controller has the right to
write ResourceQuotas of this name only."""
COUNTED_KINDS = (JOBS, PODS, DEPLOYMENTS)
"""What the scheduler keeps in memory, and a member can create without end. Kueue's Workloads and
kinds of other operators are not here: Kubernetes refuses all objects of a kind that it counts and
that was installed a few minutes ago, and nobody would see why Kueue makes no Workload."""


def object_counts(namespace: str, owner: str, most: int) -> DesiredObject:
    """The ResourceQuota by which the namespace has at most this many objects of each kind."""
    hard = {_name_of_count(kind): str(most) for kind in COUNTED_KINDS}
    return desired_object(
        RESOURCE_QUOTAS, (namespace, OBJECT_COUNTS), owner, {"spec": {"hard": hard}}
    )


def same_limits(before: Json, after: Json) -> bool:
    """Whether two versions of a ResourceQuota differ in nothing but what Kubernetes counted."""
    if before["metadata"].get("labels") != after["metadata"].get("labels"):
        return False
    return bool(before.get("spec") == after.get("spec"))


def _name_of_count(kind: Kind) -> str:
    """Kubernetes: staging/src/k8s.io/apiserver/pkg/quota/v1/generic/evaluator.go."""
    return f"count/{kind.plural}.{kind.group}" if kind.group else f"count/{kind.plural}"
