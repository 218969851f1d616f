"""PURE. The sentences of `cede explain`: why a job waits, or what happened to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cede.api import durations, names, sizes
from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.kueue import Admission, ClusterQueue, Job, LocalQueue, Workload
from cede.api.objects import Condition, Key, condition, is_true, unix
from cede.api.pods import pod_requests
from cede.api.resources import Resources, describe_amounts, parse
from cede.api.workload_identity import identity
from cede.report.cessions import summarize
from cede.report.snapshot import Snapshot, leader


@dataclass(frozen=True)
class Explanation:
    namespace: str
    name: str
    # Waiting, Running, Stopped, Finished or Unknown
    state: str
    sentences: tuple[str, ...]


def explain(key: Key, snapshot: Snapshot, now: float) -> Explanation:
    """Explains the Job or Workload `key` (namespace, name); the oldest Cession comes first."""
    namespace, name = key
    workloads = [item for item in snapshot.workloads if _belongs_to(item, name)]
    if workloads:
        state, sentences = _workload(_current(workloads), snapshot, now)
    else:
        state = "Unknown"
        sentences = [_no_workload(key, snapshot.job)]
    own_names = {name} | {workload.metadata.name for workload in workloads}
    history = _history(namespace, own_names, snapshot.cessions, now)
    sentences = [*_elastic(snapshot.job), *sentences, *history]
    return Explanation(namespace, name, state, tuple(sentences))


def _belongs_to(workload: Workload, name: str) -> bool:
    owners = {owner.name for owner in workload.metadata.ownerReferences}
    return name == workload.metadata.name or name in owners


def _current(workloads: Sequence[Workload]) -> Workload:
    """The Workload that counts among the slices of one elastic job (KEP-77)."""
    return max(
        workloads,
        key=lambda workload: (
            not is_true(workload.status.conditions, names.FINISHED),
            workload.status.admission is not None,
            workload.metadata.created,
        ),
    )


def _elastic(job: Job | None) -> Iterable[str]:
    if job is None or names.SIZES not in job.metadata.annotations:
        return
    allowed = job.metadata.annotations[names.SIZES]
    desired = job.metadata.annotations.get(names.DESIRED_SIZE, "?")
    yield (
        f"It is elastic with the allowed sizes {allowed}. Its desired size is {desired} pods; its "
        f"parallelism is {job.spec.parallelism} now."
    )
    try:
        sizes.parse(allowed)
    except ValueError as error:
        yield f"Its allowed sizes are not valid: {error}."


def _no_workload(key: Key, job: Job | None) -> str:
    namespace, name = key
    if job is None:
        return (
            f"There is no Job and no Workload {name} in namespace {namespace}: see `kubectl get "
            f"jobs,workloads -n {namespace}`."
        )
    if names.QUEUE_NAME not in job.metadata.labels:
        return (
            f"It names no queue, so Kueue does not manage it: create it in a team's namespace with "
            f"the label {names.QUEUE_NAME}: {names.LOCAL_QUEUE}."
        )
    return "Kueue has created no Workload for it yet: check that Kueue's controller runs."


# --- the state of a Workload ----------------------------------------------------------------------
def _workload(workload: Workload, snapshot: Snapshot, now: float) -> tuple[str, list[str]]:
    """(state, sentences)."""
    conditions = workload.status.conditions
    finished = _true_condition(conditions, names.FINISHED)
    if finished:
        return "Finished", [f"It finished {_age(finished, now)} ago: {finished.message}."]
    admitted = _true_condition(conditions, names.ADMITTED)
    if workload.status.admission and admitted:
        pods_ready = condition(conditions, names.PODS_READY)
        return "Running", [*_running(workload.status.admission, admitted, pods_ready, now)]
    sentences = []
    evicted = _true_condition(conditions, names.EVICTED)
    if evicted:
        sentences.append(
            f"It was evicted {_age(evicted, now)} ago ({evicted.reason}): {evicted.message}."
        )
    if not workload.spec.active:
        cession = _set_aside_for(workload, snapshot)
        if cession:
            return "Waiting", [*sentences, _aside(cession)]
        sentences.append(
            "Its Workload is not active (spec.active is false), so Kueue does not admit it."
        )
        return "Stopped", sentences
    return "Waiting", [*sentences, *_waiting(workload, snapshot, now)]


def _running(
    admission: Admission, admitted: Condition, pods_ready: Condition | None, now: float
) -> Iterable[str]:
    assignments = admission.podSetAssignments
    flavors = set[str]()
    for assignment in assignments:
        flavors.update(assignment.flavors.values())
    count = sum(assignment.count for assignment in assignments)
    yield (
        f"It runs in ClusterQueue {admission.clusterQueue} with {count} pods on "
        f"{', '.join(sorted(flavors))}, admitted {_age(admitted, now)} ago."
    )
    if pods_ready and pods_ready.status != "True":
        yield f"Its pods are not all ready: {pods_ready.message}."


def _waiting(workload: Workload, snapshot: Snapshot, now: float) -> Iterable[str]:
    local_queue = _local_queue(workload, snapshot)
    place = f"LocalQueue {workload.spec.queueName}, which does not exist in its namespace,"
    if local_queue:
        place = f"ClusterQueue {local_queue.spec.clusterQueue}"
    age = durations.describe(now - workload.metadata.created)
    yield f"It waits in {place} for {age} with priority {workload.spec.priority}."
    reserved = condition(workload.status.conditions, names.QUOTA_RESERVED)
    if reserved and reserved.message:
        yield f"Kueue reports: {reserved.message.rstrip('.')}."
    # the history has the Cession that is under way for it
    if not any(
        cession.open and cession.spec.preemptor.uid == workload.metadata.uid
        for cession in snapshot.cessions
    ):
        queue = _cluster_queue(local_queue, snapshot)
        yield _why_no_cession(requests(workload), queue, snapshot, now)


def _set_aside_for(workload: Workload, snapshot: Snapshot) -> Cession | None:
    """The Cession that a Workload without quota was made inactive for. Its targets had quota."""
    name = workload.metadata.labels.get(names.STOPPED_FOR)
    cession = next((item for item in snapshot.cessions if item.metadata.name == name), None)
    if cession is None or identity(workload) in {target.uid for target in cession.spec.targets}:
        return None
    return cession


def _aside(cession: Cession) -> str:
    preemptor = cession.spec.preemptor
    return (
        f"It is set aside, and its Workload is not active, until Cession {cession.metadata.name} "
        f"has ended: it waits before {preemptor.job or preemptor.workload}, for which capacity is "
        f"released."
    )


def _local_queue(workload: Workload, snapshot: Snapshot) -> LocalQueue | None:
    key = (workload.metadata.namespace, workload.spec.queueName)
    return next((queue for queue in snapshot.local_queues if queue.metadata.key == key), None)


def _cluster_queue(local_queue: LocalQueue | None, snapshot: Snapshot) -> ClusterQueue | None:
    if local_queue is None:
        return None
    name = local_queue.spec.clusterQueue
    return next((queue for queue in snapshot.queues if queue.metadata.name == name), None)


def _why_no_cession(
    need: Resources, queue: ClusterQueue | None, snapshot: Snapshot, now: float
) -> str:
    policy = snapshot.policy
    owned = nominal_quota(queue) if queue else Resources()
    excessive = {name: need[name] for name in need if name in owned and need[name] > owned[name]}
    if excessive:
        limits = describe_amounts({name: owned[name] for name in excessive})
        shares = not policy or policy.spec.idleCompute == "FairShare"
        return (
            f"It asks for {describe_amounts(excessive)}, and its queue owns {limits}. It is "
            f"admitted only when capacity is idle"
            + (", or when teams that borrow more can give." if shares else ".")
        )
    if policy and policy.spec.mode == "Observe":
        return (
            "The policy's mode is Observe: Cede does not preempt, and Kueue preempts by its own "
            "rules."
        )
    if not leader(snapshot, now):
        return (
            f"No scheduler leads, so Cede does not preempt: check Deployment {names.SCHEDULER} in "
            f"namespace {names.SYSTEM_NAMESPACE}."
        )
    if policy and policy.status.preemption == "Kueue":
        return (
            "Cede does not preempt now, and Kueue preempts by its own rules: condition "
            "SchedulerLeads of the ClusterPolicy says why."
        )
    min_runtime_s = policy.spec.preemption.minRuntimeSeconds if policy else 0
    return (
        f"No Cession is under way for it: the jobs that it may preempt hold too little, or have "
        f"run for less than {min_runtime_s} s."
    )


def nominal_quota(queue: ClusterQueue) -> Resources:
    """What the queue owns of each resource, in all flavors together."""
    total = Resources()
    for group in queue.spec.resourceGroups:
        for flavor in group.flavors:
            total.update(parse({quota.name: quota.nominalQuota for quota in flavor.resources}))
    return total


def requests(workload: Workload) -> Resources:
    """What all pods of the Workload request together."""
    total = Resources()
    for pod_set in workload.spec.podSets:
        for name, amount in pod_requests(pod_set.template.spec).items():
            total[name] += amount * pod_set.count
    return total


# --- Cessions -------------------------------------------------------------------------------------
def _history(
    namespace: str, own_names: set[str], cessions: Iterable[Cession], now: float
) -> Iterable[str]:
    for cession in sorted(cessions, key=lambda item: item.metadata.created):
        preemptor = cession.spec.preemptor
        if preemptor.namespace == namespace and {preemptor.job, preemptor.workload} & own_names:
            yield _as_preemptor(cession, now)
        for target in cession.spec.targets:
            if target.namespace == namespace and {target.job, target.workload} & own_names:
                summary = summarize(cession, now)
                yield (
                    f"Cession {summary.name}, {durations.describe(summary.age_s)} ago, for "
                    f"{summary.preemptor}: {target.fromSize} → {target.toSize} pods. "
                    f"{_as_target(cession, target.uid)} Reason: {summary.why}."
                )


def _as_preemptor(cession: Cession, now: float) -> str:
    summary = summarize(cession, now)
    ready = f" Its pods were ready after {summary.seconds} s." if summary.seconds else ""
    return (
        f"Cession {summary.name}, {durations.describe(summary.age_s)} ago, is {summary.phase}: "
        f"{summary.targets}.{ready} Reason: {summary.why}. {summary.message}"
    ).rstrip()


def _after_stop(target: TargetStatus) -> str:
    """What holds once it was stopped; empty if there is nothing to say."""
    stays = target.staysStopped
    pods = target.endingPods
    return (f", and stays so, as its annotation {names.AFTER_PREEMPTION} says" if stays else "") + (
        f"; {pods} of its pods have not ended, and may still save" if pods else ""
    )


def _as_target(cession: Cession, uid: str) -> str:
    """What this target has done so far."""
    target = cession.target_status(uid)
    more = _after_stop(target)
    result = f"was stopped{more}" if target.stopped else "keeps training"
    if target.cededTime:
        return (
            f"It ceded after step {target.step}, with step {target.durableStep} saved, and "
            f"{result}."
        )
    if target.forcedTime:
        return f"Its grace period passed before it had ceded; it {result}."
    if target.stopped:
        return f"It was stopped without being asked{more}."
    if target.releasedTime:
        return "It has released the capacity."
    if target.askedTime:
        return "It was asked and has not ceded yet."
    return "It has not been asked yet."


# --- conditions -----------------------------------------------------------------------------------
def _true_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    entry = condition(conditions, type_)
    return entry if entry and entry.status == "True" else None


def _age(entry: Condition, now: float) -> str:
    return durations.describe(now - unix(entry.lastTransitionTime))
