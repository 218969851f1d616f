"""PURE. What a new status of a Cession entails: its update, and events."""

from collections.abc import Iterator

from cede.api import names
from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus, TargetStatus
from cede.api.reasons import CessionPhase, SchedulerEvent
from scheduler.actions import (
    Action,
    RecordEvent,
    RecordWorkloadEvent,
    UpdateCession,
)
from scheduler.cession.cession_lifecycle import Occurrence
from scheduler.cession.cession_record import described, next_status


def recording(cession: Cession, status: CessionStatus, now: float) -> Iterator[Action]:
    """The status is written, if it is new, and events explain it."""
    if status == cession.status:
        return
    yield UpdateCession(cession.metadata.name, described(cession, status, now))
    yield from _ceded_events(cession, status)
    if status.phase is CessionPhase.FAILED:
        preemptor = cession.spec.preemptor
        workload = (preemptor.namespace, preemptor.workload)
        reason = SchedulerEvent.CESSION_FAILED
        yield RecordWorkloadEvent(workload, preemptor.uid, reason, status.message)


def end(
    cession: Cession, occurrence: Occurrence, now: float, details: str = ""
) -> Iterator[Action]:
    """End the Cession now, whatever its targets do."""
    status = next_status(cession, occurrence, cession.status.targets, now, details)
    return recording(cession, status, now)


def start_again(workload: str) -> str:
    """How a job that stays stopped is started."""
    return (
        f"{names.AFTER_PREEMPTION} is {names.STOP}: delete the job and create it again, or ask an "
        f"administrator to set spec.active of Workload {workload} to true"
    )


# --- events ---------------------------------------------------------------------------------------
def _ceded_events(cession: Cession, status: CessionStatus) -> Iterator[Action]:
    """An event on every job that has released capacity since the last pass, and did not complete
    before it had to."""
    preemptor = cession.spec.preemptor
    progress = {target.uid: target for target in status.targets}
    for target in cession.spec.targets:
        now = progress.get(target.uid, TargetStatus(uid=target.uid))
        is_new = now.releasedTime and not cession.target_status(target.uid).releasedTime
        if is_new and not now.completed:
            change = "drains" if target.how == "Drain" else f"shrank to {target.toSize}"
            change = "stopped" if now.stopped else change
            after_step = f" after step {now.step}" if now.step else ""
            yield RecordEvent(
                (target.namespace, target.job),
                target.uid,
                SchedulerEvent.CEDED,
                f"{change} for {preemptor.name} of {preemptor.queue}"
                f"{after_step}: {cession.spec.why}",
            )
            if now.staysStopped:
                yield RecordEvent(
                    (target.namespace, target.job),
                    target.uid,
                    SchedulerEvent.STAYS_STOPPED,
                    start_again(target.workload),
                )
