"""PURE. Which job a Workload belongs to: the same while it is pending and while it has quota."""

from cede.api.objects import OwnerReference, Projection


def controller(item: Projection) -> OwnerReference | None:
    """The object that controls a Workload, such as a Job or a JobSet, or that made another object.
    A pod group, a StatefulSet and a LeaderWorkerSet own their Workloads without controlling them.
    """
    owners = item.metadata.ownerReferences
    return next((owner for owner in owners if owner.controller), None)


def owner(workload: Projection) -> OwnerReference | None:
    """What people call the job of this Workload. None for a Workload without owner and for a pod
    group, of which every pod is an owner."""
    owners = workload.metadata.ownerReferences
    groups = (owner for owner in owners if owner.kind != "Pod")
    return controller(workload) or next(groups, None)


def identity(workload: Projection) -> str:
    """The uid of its controller; without one, its own.

    A Workload that is stopped and admitted again stays the same object, but each size of an elastic
    Job has a Workload of its own, and Kueue may make another one for a controller that was changed
    (Kueue: pkg/controller/jobframework/reconciler.go, ensureOneWorkload). Other owners have no
    Workload for themselves: a LeaderWorkerSet has one for each group, and all of them have the same
    label kueue.x-k8s.io/job-uid.
    """
    owner = controller(workload)
    return owner.uid if owner else workload.metadata.uid
