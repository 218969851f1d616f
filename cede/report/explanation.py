"""PURE. The facts and sentences of `cede explain`: why a job waits, or what happened to it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cede.api import durations, names, sizes
from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.job_progress import NOTHING
from cede.api.kueue import Admission, Job, Workload
from cede.api.objects import Condition, Key, unix
from cede.api.wait_reasons import WaitReason
from cede.api.workload_identity import identity
from cede.causes.alternatives import alternative_to
from cede.causes.cession import Taken, taken_from
from cede.causes.cessions import summarize
from cede.causes.facts import Cause
from cede.causes.index import Index
from cede.causes.job_causes import job_causes
from cede.causes.no_workload import why_no_workload
from cede.causes.sentences import sentences
from cede.causes.snapshot import Snapshot
from cede.causes.workload_state import current, state, true_condition
from cede.report import progress
from cede.report.ages import without_age
from cede.report.progress import UNKNOWN, Reported


@dataclass(frozen=True)
class Explanation:
    namespace: str
    name: str
    # Waiting, Running, Stopped, Finished or Unknown
    state: str
    sentences: tuple[str, ...]
    # that of the first cause; None if there is nothing to explain
    reason: WaitReason | None = None
    # the sentence of the first cause
    why: str = ""
    # the first has to pass first
    causes: tuple[Cause, ...] = ()
    # what Cessions have taken from it, the newest first
    taken: tuple[Taken, ...] = ()
    # the kinds of which not all objects could be read
    not_read: tuple[str, ...] = ()
    # how far it is, as its runtime reports it
    progress: Reported = UNKNOWN


def explain(key: Key, snapshot: Snapshot, now: float) -> Explanation:
    """Explains the Job or Workload `key` (namespace, name)."""
    namespace, name = key
    index = Index(snapshot, now)
    workloads = [item for item in snapshot.workloads if _belongs_to(item, namespace, name)]
    workload = current(workloads) if workloads else None
    causes: Sequence[Cause]
    if workload is None:
        job_state = "Unknown"
        causes = why_no_workload(key, snapshot.job, index)
        uid = snapshot.job.metadata.uid if snapshot.job else ""
    else:
        job_state = state(workload, snapshot.cessions)
        causes = job_causes(workload, snapshot.job, index)
        uid = identity(workload)
    own_names = {name} | {item.metadata.name for item in workloads}
    taken = taken_from(uid, index.cessions_by_target.get(uid, ()))
    reported = progress.as_noted(snapshot.progress.get(namespace, NOTHING).job(uid))
    lines = [
        *_elastic(snapshot.job),
        *_place(workload, index),
        *progress.sentences(reported, now),
        *sentences(causes, now, waits=job_state in ("Waiting", "Stopped")),
        *_history(namespace, own_names, snapshot.cessions, now),
    ]
    return Explanation(
        namespace,
        name,
        job_state,
        tuple(lines),
        causes[0].reason if causes else None,
        causes[0].sentence if causes else "",
        tuple(causes),
        tuple(taken),
        tuple(sorted(snapshot.incomplete)),
        reported,
    )


def without_ages(facts: Explanation) -> tuple[str, list[str]]:
    """The state and the sentences, which have all causes, without their durations."""
    return facts.state, list(map(without_age, facts.sentences))


def _belongs_to(workload: Workload, namespace: str, name: str) -> bool:
    owners = {owner.name for owner in workload.metadata.ownerReferences}
    is_named = name == workload.metadata.name or name in owners
    return workload.metadata.namespace == namespace and is_named


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


# --- where it is ----------------------------------------------------------------------------------
def _place(workload: Workload | None, index: Index) -> Iterator[str]:
    if workload is None:
        return
    conditions = workload.status.conditions
    finished = true_condition(conditions, names.FINISHED)
    if finished:
        yield f"It finished {_age(finished, index.now)} ago: {finished.message.rstrip('.')}."
        return
    admitted = true_condition(conditions, names.ADMITTED)
    if workload.status.admission and admitted:
        yield _admitted(workload.status.admission, admitted, index)
        return
    evicted = true_condition(conditions, names.EVICTED)
    if evicted:
        message = evicted.message.rstrip(".")
        yield f"It was evicted {_age(evicted, index.now)} ago ({evicted.reason}): {message}."
    queue = index.queue_name(workload)
    place = f"ClusterQueue {queue}" if queue else f"LocalQueue {workload.spec.queueName}"
    age = durations.describe(index.now - workload.metadata.created)
    verb = "waits" if workload.spec.active else "was created"
    yield f"It {verb} in {place} for {age} with priority {workload.spec.priority}."


def _admitted(admission: Admission, admitted: Condition, index: Index) -> str:
    """The size of an elastic Job changes before its admission does."""
    assignments = admission.podSetAssignments
    flavors = set[str]()
    for assignment in assignments:
        flavors.update(assignment.flavors.values())
    count = sum(assignment.count for assignment in assignments)
    job = index.snapshot.job
    if job is not None and names.SIZES in job.metadata.annotations:
        count = job.spec.parallelism
    place = f" on {', '.join(sorted(flavors))}" if flavors else ""
    return (
        f"It runs in ClusterQueue {admission.clusterQueue} with {count} pods{place}, admitted "
        f"{_age(admitted, index.now)} ago."
    )


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
                    f"{_as_target(cession, target.uid)} Reason: {summary.why}. "
                    f"{alternative_to(cession, target.uid)}"
                ).rstrip()


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
    was_spared = target.stopped and cession.ended and not target.releasedTime
    more = "" if was_spared else _after_stop(target)
    stop = "was stopped" if target.releasedTime else "is being stopped"
    stop = "was to be stopped, and was not" if was_spared else stop
    result = f"{stop}{more}" if target.stopped else "keeps training"
    if target.cededTime:
        return (
            f"It ceded after step {target.step}, with step {target.durableStep} saved, and "
            f"{result}."
        )
    if target.forcedTime:
        return f"Its grace period passed before it had ceded; it {result}."
    if was_spared:
        return f"It {stop}."
    if target.stopped:
        return f"It {stop} without being asked{more}."
    if target.releasedTime:
        return "It has released the capacity."
    if target.askedTime:
        return "It was asked and has not ceded yet."
    return "It has not been asked yet."


def _age(entry: Condition, now: float) -> str:
    return durations.describe(now - unix(entry.lastTransitionTime))
