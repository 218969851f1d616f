"""PURE. Scale-up slices: Kueue's Workloads that replace the Workload of a job that grows."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cede.api.kueue import PodSetAssignment, Workload
from scheduler.quota.pod_sets import PodSetRequest


def added_pods(
    pod_sets: Iterable[PodSetRequest], replaced: Workload, queue_flavors: Collection[str]
) -> tuple[PodSetRequest, ...]:
    """What a slice adds to the Workload that it replaces, on the flavors of that one.

    Kueue tries only the difference, and keeps a growing job on its flavors
    (pkg/scheduler/flavorassigner/flavorassigner.go, replaceWorkloadSlice).
    """
    counts = {pod_set.name: pod_set.count for pod_set in replaced.spec.podSets}
    admission = replaced.status.admission
    assignments = admission.podSetAssignments if admission else ()
    assigned = {assignment.name: assignment for assignment in assignments}
    return tuple(_added(pod_set, assigned, counts, queue_flavors) for pod_set in pod_sets)


def _added(
    pod_set: PodSetRequest,
    assigned: Mapping[str, PodSetAssignment],
    counts: Mapping[str, int],
    queue_flavors: Collection[str],
) -> PodSetRequest:
    assignment = assigned.get(pod_set.name)
    if assignment is None:
        return pod_set
    # Kueue lowers the count of the pod set when a job shrinks, not the assignment
    present = min(assignment.count, counts.get(pod_set.name, assignment.count))
    others = frozenset(queue_flavors) - frozenset(assignment.flavors.values())
    return replace(
        pod_set,
        count=max(0, pod_set.count - present),
        unsuitable=pod_set.unsuitable | others,
    )
