"""PURE. Whether Kueue would try to admit a Workload now, whatever quota is free."""

from collections.abc import Mapping

from cede.api import names
from cede.api.kueue import ClusterQueue, LocalQueue, Workload
from cede.api.objects import condition, is_true

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label of every Namespace that has its name."""


def why_ineligible(workload: Workload, local_queue: LocalQueue, queue: ClusterQueue) -> str:
    """Why Kueue would not try to admit the Workload now; empty if it would.

    Kueue: pkg/workload/workload.go, IsAdmissible; pkg/cache/queue/cluster_queue.go,
    backoffWaitingTimeExpired; pkg/scheduler/scheduler.go, nominate.
    """
    return (
        _why_workload_waits(workload)
        or _why_local_queue_holds(local_queue)
        or _why_queue_is_inactive(queue)
        or _why_namespace_is_wrong(workload, queue)
    )


def _why_queue_is_inactive(queue: ClusterQueue) -> str:
    """Why Kueue admits nothing in the ClusterQueue; empty if it does.

    Kueue: pkg/cache/scheduler/clusterqueue.go, and its condition Active. A queue without the
    condition counts as active: it is new.
    """
    if queue.metadata.deletionTimestamp:
        return "its ClusterQueue is being deleted"
    if queue.spec.stopPolicy != "None":
        return "its ClusterQueue is on hold"
    active = condition(queue.status.conditions, names.ACTIVE)
    if active and active.status == "False":
        return f"its ClusterQueue is not active ({active.reason})"
    return ""


def _why_workload_waits(workload: Workload) -> str:
    conditions = workload.status.conditions
    if workload.metadata.deletionTimestamp:
        return "it is being deleted"
    if not workload.spec.active:
        return "it is not active"
    if workload.metadata.annotations.get(names.ADMISSION_GATED_BY):
        return "it has an admission gate"
    quota = condition(conditions, names.QUOTA_RESERVED)
    if quota and quota.status == "False" and quota.reason == "OnHold":
        return "its job is on hold"
    if quota and quota.status == "False" and quota.reason == "Misconfigured":
        return "Kueue cannot admit it as it is"
    if is_true(conditions, "WaitingForReplacementPods"):
        return "it waits for replacements of its pods"
    if _is_in_back_off(workload):
        return "Kueue waits before it tries it again"
    if any(check.state in ("Retry", "Rejected") for check in workload.status.admissionChecks):
        return "one of its admission checks has failed"
    return ""


def _is_in_back_off(workload: Workload) -> bool:
    """Kueue clears the time when it has passed (pkg/controller/core/workload_controller.go)."""
    requeued = condition(workload.status.conditions, "Requeued")
    state = workload.status.requeueState
    is_delayed = state is not None and bool(state.requeueAt)
    return is_delayed or (requeued is not None and requeued.status == "False")


def _why_local_queue_holds(queue: LocalQueue) -> str:
    if queue.metadata.deletionTimestamp:
        return "its LocalQueue is being deleted"
    return "its LocalQueue is on hold" if queue.spec.stopPolicy != "None" else ""


def _why_namespace_is_wrong(workload: Workload, queue: ClusterQueue) -> str:
    """Other labels of namespaces are not looked at: the queues of teams select by name."""
    selector: Mapping[str, str] = {}
    if queue.spec.namespaceSelector:
        selector = queue.spec.namespaceSelector.matchLabels
    namespace = workload.metadata.namespace
    if selector.get(NAMESPACE_NAME, namespace) != namespace:
        return "its ClusterQueue does not serve its namespace"
    return ""
