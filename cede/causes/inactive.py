"""PURE. Why the Workload of a job is not active, and who made it so."""

from cede.api import durations, names
from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.api.objects import condition, unix
from cede.api.wait_reasons import WaitReason
from cede.api.workload_identity import identity
from cede.api.written_workload import active_writer
from cede.causes.cession import describe_loss, taken_from
from cede.causes.cessions import job_of
from cede.causes.facts import Cause
from cede.causes.index import Index
from cede.causes.workload_state import set_aside_for, stopped_for, true_condition

DEACTIVATED = "The workload is deactivated"
DUE_TO = f"{DEACTIVATED} due to "
# Kueue: pkg/controller/core/workload_controller.go, wherever it sets a deactivation target
KUEUE_CAUSES = (
    ("maximum number of re-queuing retries", WaitReason.RETRIES_EXHAUSTED),
    ("maximum execution time", WaitReason.RUNTIME_EXHAUSTED),
    ("admission check", WaitReason.CHECK_REJECTED),
)
CURES = {
    WaitReason.RETRIES_EXHAUSTED: (
        "find out why its pods are not ready in time, and set spec.active of the Workload to true"
    ),
    WaitReason.RUNTIME_EXHAUSTED: (
        f"raise its label {names.MAX_EXECUTION_TIME}, and set spec.active of the Workload to true"
    ),
    WaitReason.CHECK_REJECTED: "the message of the check says what to change",
}


def why_inactive(workload: Workload, index: Index) -> Cause:
    cessions = index.snapshot.cessions
    aside = set_aside_for(workload, cessions)
    if aside:
        return _aside(aside)
    label = workload.metadata.labels.get(names.STOPPED_FOR)
    if label == names.NO_BASE:
        return Cause(
            WaitReason.BASE_NOT_RUNNING,
            "It is the surplus of another job, which does not run.",
            "that job runs again",
        )
    cession = stopped_for(workload, cessions) or _kept_stopped(workload, index)
    if cession:
        return _stopped(workload, cession)
    return _by_kueue(workload) or _by_somebody(workload, index)


def _aside(cession: Cession) -> Cause:
    preemptor = cession.spec.preemptor
    return Cause(
        WaitReason.ASIDE_FOR_CESSION,
        f"It is set aside, and its Workload is not active, until Cession {cession.metadata.name} "
        f"has ended: it waits before {preemptor.name}, for which capacity is "
        f"released. It keeps its place.",
    )


def _kept_stopped(workload: Workload, index: Index) -> Cession | None:
    """The newest Cession that stopped it for good: then its label is gone. None if somebody else
    has made it inactive since."""
    writer = active_writer(workload)
    if writer and writer.manager != names.SCHEDULER:
        return None
    uid = identity(workload)
    newest = index.cessions_by_target.get(uid, ())
    return next((item for item in newest if item.target_status(uid).staysStopped), None)


def _stopped(workload: Workload, cession: Cession) -> Cause:
    uid = identity(workload)
    status = cession.target_status(uid)
    lost = [describe_loss(taken) for taken in taken_from(uid, [cession])]
    loss = f", and lost {lost[0]}" if lost and lost[0] else ""
    facts = f"It was stopped for {job_of(cession)} ({cession.spec.reason}){loss}"
    if status.staysStopped:
        return Cause(
            WaitReason.KEPT_STOPPED,
            f"{facts}. It stays stopped, as its annotation {names.AFTER_PREEMPTION} says.",
            "set spec.active of its Workload to true",
        )
    ending = f"; {status.endingPods} of its pods may still save" if status.endingPods else ""
    return Cause(
        WaitReason.STOPPED_FOR_CESSION,
        f"{facts}{ending}. It runs again when Cession {cession.metadata.name} has ended and "
        "quota is free.",
    )


def _by_kueue(workload: Workload) -> Cause | None:
    """What Kueue has written with the eviction."""
    evicted = true_condition(workload.status.conditions, names.EVICTED)
    target = condition(workload.status.conditions, "DeactivationTarget")
    message = ""
    if evicted and evicted.message.startswith(DUE_TO):
        message = evicted.message.removeprefix(DUE_TO)
    if target:
        message = target.message
    for words, reason in KUEUE_CAUSES:
        if words in message.lower():
            return Cause(reason, f"Kueue deactivated it: {message.rstrip('.')}.", CURES[reason])
    if message:
        facts = f"Kueue deactivated it: {message.rstrip('.')}."
        return Cause(WaitReason.OTHER_MESSAGE, facts, "set spec.active of its Workload to true")
    return None


def _by_somebody(workload: Workload, index: Index) -> Cause:
    writer = active_writer(workload)
    who = ""
    if writer and writer.manager:
        age = durations.describe(index.now - unix(writer.time)) if writer.time else ""
        who = f" {writer.manager} wrote that{f' {age} ago' if age else ''}."
    return Cause(
        WaitReason.DEACTIVATED_BY_HAND,
        f"Its Workload is not active (spec.active is false), so Kueue does not admit it.{who}",
        f"kubectl patch workload {workload.metadata.name} -n {workload.metadata.namespace} "
        '--type=merge -p \'{"spec": {"active": true}}\'',
    )
