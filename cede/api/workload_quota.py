"""PURE. What quota a Workload has, counted as Kueue does."""

from collections import Counter
from collections.abc import Mapping

from cede.api import names
from cede.api.kueue import PodSetAssignment, Workload
from cede.api.objects import Key, is_true
from cede.api.resources import Quota, amount


def has_quota(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return (
        bool(workload.status.admission)
        and is_true(conditions, names.QUOTA_RESERVED)
        and not is_true(conditions, names.FINISHED)
    )


def replaced_slice(workload: Workload) -> Key | None:
    """The Workload that this scale-up slice of the same job replaces; None if it is not one."""
    note = workload.metadata.annotations.get(names.SLICE_REPLACEMENT_FOR, "")
    return (workload.metadata.namespace, note.rsplit("/", 1)[-1]) if note else None


def remaining_counts(workload: Workload) -> dict[str, int]:
    """Pods by pod set, without those that have finished: their quota is free again.

    Kueue: pkg/workload/workload.go, podSetsCountsAfterReclaim.
    """
    finished = {pods.name: pods.count for pods in workload.status.reclaimablePods}
    return {
        pod_set.name: max(0, pod_set.count - finished.get(pod_set.name, 0))
        for pod_set in workload.spec.podSets
    }


def assigned(workload: Workload) -> tuple[int, Quota]:
    """How many pods have quota, and for what.

    Kueue: pkg/workload/workload.go, totalRequestsFromAdmission.
    """
    usage: Quota = Counter()
    size = 0
    counts = remaining_counts(workload)
    admission = workload.status.admission
    for pod_set in admission.podSetAssignments if admission else ():
        # Kueue lowers the count of the pod set when a job shrinks, not the assignment
        count = min(counts.get(pod_set.name, pod_set.count), pod_set.count)
        size += count
        for key, amount_of_all in _total_usage(pod_set).items():
            is_whole = count == pod_set.count
            usage[key] += amount_of_all if is_whole else amount_of_all // pod_set.count * count
    return size, usage


def _total_usage(pod_set: PodSetAssignment) -> Mapping[tuple[str, str], int]:
    return {
        (flavor, resource): amount(resource, pod_set.resourceUsage.get(resource, 0))
        for resource, flavor in pod_set.flavors.items()
    }
