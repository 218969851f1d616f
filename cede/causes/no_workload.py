"""PURE. Why Kueue has no Workload of a Job, and what the webhook has not given to it."""

from collections.abc import Iterator

from cede.api import durations, names
from cede.api.kueue import Job, Workload
from cede.api.objects import ALLOCATIONS, Key, unix
from cede.api.wait_reasons import WaitReason
from cede.causes.facts import Cause
from cede.causes.index import Index
from cede.causes.queue import kueue_down


def why_no_workload(key: Key, job: Job | None, index: Index) -> list[Cause]:
    """At least one cause."""
    namespace, name = key
    if job is None:
        return [
            Cause(
                WaitReason.NO_SUCH_JOB,
                f"There is no Job and no Workload {name} in namespace {namespace}.",
                f"see `kubectl get jobs,workloads -n {namespace}`",
            )
        ]
    if job.metadata.deletionTimestamp:
        age = durations.describe(index.now - unix(job.metadata.deletionTimestamp))
        return [
            Cause(
                WaitReason.NO_WORKLOAD,
                f"It was deleted {age} ago, and goes when its pods have ended.",
                f"see `kubectl get pods -n {namespace} -l batch.kubernetes.io/job-name={name}`",
            )
        ]
    if names.QUEUE_NAME not in job.metadata.labels:
        return [_not_queued(job, index)]
    down = list(kueue_down(index))
    if down:
        return down
    unknown_class = _unknown_class(job, index)
    if unknown_class:
        return [unknown_class]
    age = durations.describe(index.now - job.metadata.created)
    return [
        Cause(
            WaitReason.NO_WORKLOAD,
            f"Kueue has created no Workload for it yet; the Job exists for {age}.",
            "if that lasts, an admin checks that Kueue's controller runs, and reads its log",
        )
    ]


def _not_queued(job: Job, index: Index) -> Cause:
    namespace = job.metadata.namespace
    teams = {entry.namespace for entry in index.allocations.values()}
    cure = f"create it again with the label {names.QUEUE_NAME}: {names.LOCAL_QUEUE}"
    if index.snapshot.knows(ALLOCATIONS) and namespace in teams:
        return Cause(
            WaitReason.WEBHOOK_MISSED,
            "It names no queue, so Kueue does not manage it: Cede's webhook did not answer when it "
            "was created.",
            f"{cure}, and have an admin look at Deployment {names.WEBHOOK}",
        )
    return Cause(
        WaitReason.NOT_QUEUED,
        "It names no queue, so Kueue does not manage it.",
        f"{cure}, in a team's namespace",
    )


def without_class(workload: Workload, job: Job | None, index: Index) -> Iterator[Cause]:
    """A Job of a team that has no priority class though the policy has some."""
    policy = index.snapshot.policy
    is_classed = workload.spec.priorityClassRef is not None
    if job is None or policy is None or is_classed or not policy.spec.priorityClasses:
        return
    if job.metadata.namespace in {entry.namespace for entry in index.allocations.values()}:
        yield Cause(
            WaitReason.WEBHOOK_MISSED,
            f"It has no priority class, and its priority is {workload.spec.priority}: Cede's "
            "webhook did not answer when it was created, or the policy had no classes then.",
            f"`cede priority {job.metadata.name} CLASS -n {job.metadata.namespace}`",
        )


def _unknown_class(job: Job, index: Index) -> Cause | None:
    """Kueue logs an error, and makes no Workload (pkg/controller/jobframework/reconciler.go)."""
    known = index.snapshot.priority_classes
    name = job.metadata.labels.get(names.PRIORITY_CLASS, "")
    if known is None or not name or name in known:
        return None
    listed = ", ".join(sorted(known)) or "none"
    return Cause(
        WaitReason.UNKNOWN_PRIORITY_CLASS,
        f"Its priority class {name} does not exist, so Kueue makes no Workload for it. These "
        f"exist: {listed}.",
        f"`cede priority {job.metadata.name} CLASS -n {job.metadata.namespace}`",
    )
