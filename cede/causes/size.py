"""PURE. Why an elastic job that runs is smaller than its user wants."""

from collections.abc import Iterator, Sequence

from cede.api import durations, names, sizes
from cede.api.kueue import Job, Workload
from cede.api.objects import CLUSTER_QUEUES, COHORTS, unix_or_zero
from cede.api.pods import pod_requests
from cede.api.reasons import CessionPhase
from cede.api.resources import Quota, describe_amounts
from cede.api.wait_reasons import WaitReason
from cede.causes.budget import budget_used
from cede.causes.cession import Taken, age_of, describe_loss
from cede.causes.facts import Cause, estimate
from cede.causes.idle import idle_in_cohort
from cede.causes.index import Index
from cede.causes.pods import POD_SCHEDULED
from cede.causes.queue_quota import queue_quota
from cede.causes.take_back import who_preempts
from cede.causes.workload_state import true_condition


def desired_size(job: Job) -> int | None:
    """None if its annotation is no number."""
    return sizes.parse_one(job.metadata.annotations.get(names.DESIRED_SIZE, ""))


def why_it_is_small(
    workload: Workload, job: Job, taken: Sequence[Taken], index: Index
) -> Iterator[Cause]:
    """First what made it so, or is about to, then what keeps it small. `taken` has the newest
    first. None if nothing is known."""
    desired = desired_size(job)
    size = job.spec.parallelism
    if names.SIZES not in job.metadata.annotations or desired is None:
        return
    shrunk = _shrunk(taken, size, index.now)
    shrinks = shrunk is not None and shrunk.reason is WaitReason.SHRINKS_FOR_CESSION
    if shrunk and (shrinks or size < desired):
        yield shrunk
    if size < desired and not shrinks:
        goal = f"It has {size} of {desired} pods"
        yield from _why_no_growth(workload, job, goal, index)


def _shrunk(taken: Sequence[Taken], size: int, now: float) -> Cause | None:
    """The newest Cession that took from it, unless the job has grown since."""
    if not taken:
        return None
    newest = taken[0]
    pods = f"{newest.from_size} → {newest.to_size} pods"
    who = f"for {newest.preemptor} ({newest.rule})"
    if newest.released and size <= newest.to_size:
        loss = describe_loss(newest)
        more = f", and lost {loss}" if loss else ""
        forced = " when its grace had passed" if newest.forced else ""
        return Cause(
            WaitReason.SHRUNK_FOR_CESSION,
            f"It ceded {pods} {who}{forced}, {age_of(newest, now)} ago{more}.",
        )
    is_open = newest.phase in (CessionPhase.PENDING, CessionPhase.ASKED, CessionPhase.RELEASED)
    if newest.released or not is_open:
        return None
    return Cause(
        WaitReason.SHRINKS_FOR_CESSION,
        f"It is asked to cede {pods} {who}.",
    )


def _why_no_growth(workload: Workload, job: Job, goal: str, index: Index) -> Iterator[Cause]:
    cause = (
        _cooldown(job, goal, index)
        or _no_node(goal, index)
        or _nobody_resizes(goal, index)
        or _budget(workload, goal, index)
        or _no_quota(workload, goal, index)
    )
    if cause:
        yield cause
    elif index.snapshot.knows(CLUSTER_QUEUES):
        yield Cause(
            WaitReason.GROWTH_PENDING,
            f"{goal}, and quota for one more is idle. It grows when a node has room, and no job "
            "waits that could use that quota.",
            f"`cede resize {job.metadata.name} SIZE -n {job.metadata.namespace}` if fewer pods are "
            "enough",
        )


def _cooldown(job: Job, goal: str, index: Index) -> Cause | None:
    policy = index.snapshot.policy
    shrunk = unix_or_zero(job.metadata.annotations.get(names.SHRUNK_AT, ""))
    if policy is None or not shrunk:
        return None
    cooldown_s = policy.spec.preemption.growCooldownSeconds
    end = shrunk + cooldown_s
    if end <= index.now:
        return None
    return Cause(
        WaitReason.GROWTH_COOLDOWN,
        f"{goal}. It shrank {durations.describe(index.now - shrunk)} ago, and does not grow for "
        f"{cooldown_s} s after that.",
        estimate=estimate("growCooldownSeconds of the policy", earliest=end),
    )


def _no_node(goal: str, index: Index) -> Cause | None:
    """Kubernetes cannot place a pod that the job has grown by."""
    for pod in index.snapshot.pods or ():
        scheduled = true_condition(pod.status.conditions, POD_SCHEDULED)
        refusals = [
            entry
            for entry in pod.status.conditions
            if entry.type == POD_SCHEDULED and entry.status == "False"
        ]
        if scheduled is None and refusals:
            return Cause(
                WaitReason.GROWTH_NO_NODE,
                f"{goal}. Kubernetes has no node for pod {pod.metadata.name}: "
                f"{refusals[0].message.rstrip('.')}.",
                "pods on these nodes end",
            )
    return None


def _budget(workload: Workload, goal: str, index: Index) -> Cause | None:
    """Whether one more pod would have to be borrowed, and the team borrows nothing new."""
    admission = workload.status.admission
    queue = index.queues.get(admission.clusterQueue) if admission else None
    if admission is None or queue is None or not workload.spec.podSets:
        return None
    flavors = admission.podSetAssignments[0].flavors if admission.podSetAssignments else {}
    for resource, asked in pod_requests(workload.spec.podSets[0].template.spec).items():
        quota = queue_quota(queue, flavors.get(resource, ""), resource)
        if quota and quota.used + asked > quota.nominal:
            return budget_used(admission.clusterQueue, goal, None, index)
    return None


def _no_quota(workload: Workload, goal: str, index: Index) -> Cause | None:
    """Whether less is idle than one more pod asks for, in the flavors that the job has."""
    admission = workload.status.admission
    snapshot = index.snapshot
    can_tell = snapshot.knows(CLUSTER_QUEUES) and snapshot.knows(COHORTS)
    if admission is None or not can_tell or not workload.spec.podSets:
        return None
    flavors = admission.podSetAssignments[0].flavors if admission.podSetAssignments else {}
    pod = pod_requests(workload.spec.podSets[0].template.spec)
    idle = idle_in_cohort(admission.clusterQueue, index)
    for resource in sorted(pod, key=lambda name: ("/" not in name, name)):
        flavor = flavors.get(resource, "")
        amount = idle.get((flavor, resource))
        if flavor and amount is not None and amount < pod[resource]:
            free = describe_amounts(Quota({(flavor, resource): amount}))
            asked = describe_amounts({resource: pod[resource]})
            return Cause(
                WaitReason.GROWTH_NO_QUOTA,
                f"{goal}. One more asks for {asked}, and {free} of {flavor} is idle in all queues "
                "together.",
                "jobs end or shrink",
            )
    return None


def _nobody_resizes(goal: str, index: Index) -> Cause | None:
    cause = who_preempts(index)
    if cause is None or cause.reason not in (WaitReason.POLICY_OBSERVES, WaitReason.NO_SCHEDULER):
        return None
    return Cause(cause.reason, f"{goal}. {cause.sentence}", cause.cure)
