"""PURE. What Kubernetes and Kueue do after an action: to Workloads, their jobs and pods."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from cede.api import names
from cede.api.kueue import Admission, Job, PodSetAssignment, Workload
from cede.api.objects import Condition, Key, rfc3339
from cede.api.resources import Quota, amount, quantity
from cede.api.workload_identity import identity
from cede.api.workload_quota import has_quota, replaced_slice
from scheduler.quota.assignments import assign
from scheduler.server_actions import ScaleServer
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from whatif.placing import make_pods
from whatif.world import World, with_conditions


# --- sizes ----------------------------------------------------------------------------------------
def resize_job(world: World, key: Key, size: int, *, shrinks: bool) -> None:
    """The Job has this number of pods from now on. More than it has quota for wait in a slice."""
    job = world.jobs[key]
    notes = dict(job.metadata.annotations)
    if shrinks:
        notes[names.SHRUNK_AT] = rfc3339(world.now)
    world.jobs[key] = replace(
        job,
        metadata=replace(job.metadata, annotations=notes),
        spec=replace(job.spec, parallelism=size, completions=size),
    )
    workloads = world.workloads_of(key[0], job.metadata.uid)
    with_quota = list(filter(has_quota, workloads))
    for workload in workloads:
        if with_quota and workload not in with_quota:
            # a slice for another size
            world.remove(workload)
        elif size < _count(workload) or not with_quota:
            _set_count(world, workload, size)
        elif size > _count(workload):
            world.put(_slice(world, workload, size))


def _count(workload: Workload) -> int:
    return sum(pod_set.count for pod_set in workload.spec.podSets)


def _set_count(world: World, workload: Workload, size: int) -> None:
    """Kueue lowers the count of the pod set when a job shrinks, not the assignment."""
    resized = _with_count(workload, size)
    world.put(resized)
    if has_quota(resized):
        gone = [pod for pod in world.pods_of(resized) if _index(pod.metadata.labels) >= size]
        world.remove_pods(gone)
        make_pods(world, resized)


def _with_count(workload: Workload, size: int) -> Workload:
    pod_sets = tuple(replace(pod_set, count=size) for pod_set in workload.spec.podSets)
    return replace(workload, spec=replace(workload.spec, podSets=pod_sets))


def _index(labels: dict[str, str]) -> int:
    text = labels.get(names.POD_INDEX, "")
    return int(text) if text.isdecimal() else -1


def _slice(world: World, workload: Workload, size: int) -> Workload:
    """The Workload with which Kueue replaces one that grows."""
    metadata = replace(
        workload.metadata,
        name=f"{workload.metadata.name}-{size}",
        uid=f"{workload.metadata.uid}-{size}",
        creationTimestamp=rfc3339(world.now),
        annotations={names.SLICE_REPLACEMENT_FOR: "/".join(workload.metadata.key)},
    )
    grown = _with_count(workload, size)
    return replace(grown, metadata=metadata, status=Workload().status)


# --- admission ------------------------------------------------------------------------------------
def admit(world: World, snapshot: Snapshot, pending: PendingWorkload) -> int | None:
    """Kueue admits the Workload. Returns how many of its pods find no node; None, and nothing
    changes, if it does not fit."""
    if assign(pending.pod_sets, pending.queue, snapshot.quota) is None:
        return None
    workload = world.workloads[pending.key]
    replaced = world.workloads.get(replaced_slice(workload) or ("", ""))
    if pending.is_scale_up and replaced and replaced.status.admission:
        assigned = tuple(
            _scaled(assignment, _count(workload))
            for assignment in replaced.status.admission.podSetAssignments
        )
        world.remove(replaced)
    else:
        assigned = tuple(_assignments(pending, snapshot))
    reserved = Condition(names.QUOTA_RESERVED, "True", "", "", rfc3339(world.now))
    admitted = with_conditions(workload, reserved)
    status = replace(admitted.status, admission=Admission(pending.queue, assigned))
    admitted = replace(admitted, status=status)
    world.put(admitted)
    _suspend(world, admitted, is_suspended=False)
    return make_pods(world, admitted)


def _assignments(pending: PendingWorkload, snapshot: Snapshot) -> Iterator[PodSetAssignment]:
    """Kueue assigns flavors to one pod set after the other."""
    before: Quota = Counter()
    for number, pod_set in enumerate(pending.pod_sets, start=1):
        usage = assign(pending.pod_sets[:number], pending.queue, snapshot.quota) or Counter()
        part = usage - before
        before = usage
        yield PodSetAssignment(
            name=pod_set.name,
            count=pod_set.count,
            flavors={resource: flavor for flavor, resource in part},
            resourceUsage={
                resource: quantity(resource, used) for (_, resource), used in part.items()
            },
        )


def _scaled(assignment: PodSetAssignment, count: int) -> PodSetAssignment:
    """The same flavors for another number of pods."""
    usage: dict[str, str | int] = {}
    for resource, text in assignment.resourceUsage.items():
        per_pod = amount(resource, text) // max(1, assignment.count)
        usage[resource] = quantity(resource, per_pod * count)
    return replace(assignment, count=count, resourceUsage=usage)


def _suspend(world: World, workload: Workload, *, is_suspended: bool) -> None:
    """The Job of the Workload, if a Job owns it."""
    for owner in workload.metadata.ownerReferences:
        key = (workload.metadata.namespace, owner.name)
        job = world.jobs.get(key)
        if job and job.metadata.uid == identity(workload):
            world.jobs[key] = _suspended(world, job, is_suspended=is_suspended)


def _suspended(world: World, job: Job, *, is_suspended: bool) -> Job:
    status = replace(job.status, startTime="" if is_suspended else rfc3339(world.now))
    return replace(job, spec=replace(job.spec, suspend=is_suspended), status=status)


# --- what stops -----------------------------------------------------------------------------------
def stop(world: World, job: AdmittedWorkload) -> None:
    """Its pods end, and it waits for quota again, unless it is to stay stopped."""
    workload = world.workloads[job.key]
    world.remove_pods(world.pods_of(workload))
    freed = with_conditions(workload, Condition(names.QUOTA_RESERVED, "False", "Pending"))
    kept = (c for c in freed.status.conditions if c.type not in (names.PODS_READY, names.ADMITTED))
    status = replace(freed.status, admission=None, conditions=tuple(kept))
    spec = replace(freed.spec, active=not job.stays_stopped)
    world.put(replace(freed, spec=spec, status=status))
    _suspend(world, workload, is_suspended=True)
    world.statuses.pop(job.job_uid, None)


def drain_pod(world: World, job: AdmittedWorkload) -> None:
    """A pod of a server ends for good, and so does its Workload."""
    workload = world.workloads[job.key]
    world.remove_pods(world.pods_of(workload))
    world.remove(workload)


def scale_server(world: World, action: ScaleServer) -> None:
    server = world.servers[action.server]
    patch = action.patch(world.now)["metadata"]
    notes = dict(server.metadata.annotations)
    for name, value in patch["annotations"].items():
        notes.pop(name, None)
        if value is not None:
            notes[name] = value
    labels = server.metadata.labels | patch["labels"]
    world.servers[action.server] = replace(
        server,
        metadata=replace(server.metadata, labels=labels, annotations=notes),
        spec=replace(server.spec, replicas=action.replicas),
    )


def set_active(world: World, key: Key, stopped_for: str, *, active: bool) -> bool:
    """Kueue tries a Workload that waits, or does not while it is inactive. Returns whether that is
    new."""
    workload = world.workloads[key]
    labels = {k: v for k, v in workload.metadata.labels.items() if k != names.STOPPED_FOR}
    if not active:
        labels[names.STOPPED_FOR] = stopped_for
    metadata = replace(workload.metadata, labels=labels)
    changed = replace(workload, metadata=metadata, spec=replace(workload.spec, active=active))
    world.put(changed)
    return changed != workload
