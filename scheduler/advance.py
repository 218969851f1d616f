"""PURE. The actions of one pass for an open Cession. Every action can be repeated without harm.

1. Observe the targets: which of them were asked, have ceded, are released.
2. Resize or stop the targets that are ready.
3. Determine what happened, and look up the next phase in scheduler/cession_lifecycle.py.
4. Record the new status after all other actions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cede.api import names
from cede.api.cession import OPEN, Cession, CessionStatus, TargetStatus
from cede.api.objects import rfc3339, set_condition, unix
from cede.api.reasons import CessionPhase, SchedulerEvent
from scheduler.actions import (
    Action,
    RecordEvent,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.assignments import assignments
from scheduler.cession_lifecycle import ADMISSION_TIMEOUT_S, Occurrence, next_phase
from scheduler.reservation import Reservation, prepare
from scheduler.snapshot import Snapshot
from scheduler.target_progress import TargetProgress, observe, release
from scheduler.workloads import AdmittedWorkload, PendingWorkload


@dataclass(frozen=True, slots=True)
class PreemptorState:
    """The preemptor's Workload as it is now: at most one of the three; none if it was deleted."""

    pending: PendingWorkload | None
    admitted: AdmittedWorkload | None
    finished: bool


def find_preemptor(cession: Cession, snapshot: Snapshot) -> PreemptorState:
    uid = cession.spec.preemptor.uid
    return PreemptorState(
        pending=next((workload for workload in snapshot.pending if workload.uid == uid), None),
        admitted=next((workload for workload in snapshot.admitted if workload.uid == uid), None),
        finished=uid in snapshot.finished,
    )


def advance(cession: Cession, snapshot: Snapshot, now: float) -> list[Action]:
    """The actions of one pass for an open Cession. The update of its status comes after all actions
    on jobs, queues and Workloads."""
    preemptor = find_preemptor(cession, snapshot)
    is_waiting = _is_waiting(cession, preemptor, snapshot)
    progress = [observe(cession, target, snapshot, now) for target in cession.spec.targets]
    reservation = Reservation()
    if is_waiting:
        reservation = prepare(cession, snapshot, now)
        if reservation.may_release:
            progress = _release_ready(cession, progress, now)
    occurrence = _occurrence(cession, preemptor, progress, snapshot, now)
    status = _next_status(cession, occurrence, progress, now)
    if is_waiting:
        status = status.model_copy(update={"reservedTime": reservation.since})
    actions = list[Action]()
    if is_waiting:
        actions += reservation.actions
        actions += [action for target in progress for action in target.actions]
    if preemptor.admitted or status.phase not in OPEN:
        actions += _reactivate(status, snapshot)
    if status != cession.status:
        actions.append(UpdateCession(cession.metadata.name, _described(cession, status, now)))
        actions += _ceded_events(cession, status)
    return actions


def _is_waiting(cession: Cession, preemptor: PreemptorState, snapshot: Snapshot) -> bool:
    """Whether the preemptor is pending and Kueue would admit it if it fitted."""
    if preemptor.pending is None or not preemptor.pending.active:
        return False
    return cession.spec.preemptor.queue in snapshot.quota.queues


def _release_ready(
    cession: Cession, progress: Sequence[TargetProgress], now: float
) -> list[TargetProgress]:
    """Capacity that Kueue does not reserve for the preemptor is released all at once."""
    if not cession.spec.reserved and not all(target.ready for target in progress):
        return list(progress)
    return [release(cession, target, now) if target.ready else target for target in progress]


def _occurrence(
    cession: Cession,
    preemptor: PreemptorState,
    progress: Sequence[TargetProgress],
    snapshot: Snapshot,
    now: float,
) -> Occurrence | None:
    if preemptor.admitted:
        if _pods_are_ready(preemptor.admitted):
            return Occurrence.PREEMPTOR_READY
        return Occurrence.PREEMPTOR_ADMITTED
    if preemptor.finished:
        return Occurrence.PREEMPTOR_FINISHED
    if preemptor.pending is None:
        return Occurrence.PREEMPTOR_DELETED
    if not _is_waiting(cession, preemptor, snapshot):
        return Occurrence.PREEMPTOR_DEACTIVATED
    return _while_waiting(cession, preemptor.pending, progress, snapshot, now)


def _pods_are_ready(workload: AdmittedWorkload) -> bool:
    """The pods of a Workload without a Job are not counted."""
    return workload.ready_pods >= workload.size > 0 or not workload.job_version


def _while_waiting(
    cession: Cession,
    pending: PendingWorkload,
    progress: Sequence[TargetProgress],
    snapshot: Snapshot,
    now: float,
) -> Occurrence | None:
    statuses = [target.status for target in progress]
    match cession.status.phase:
        case CessionPhase.ADMITTED:
            return Occurrence.ADMISSION_LOST
        case CessionPhase.RELEASED:
            queue = snapshot.quota.queues[cession.spec.preemptor.queue]
            requests = assignments(pending.pod_sets, queue)
            fits = any(snapshot.quota.fits(queue.name, request) for request in requests)
            timed_out = now - _released_at(cession, statuses) > ADMISSION_TIMEOUT_S
            return Occurrence.ADMISSION_TIMED_OUT if timed_out and not fits else None
        case _:
            if all(status.releasedTime for status in statuses):
                return Occurrence.ALL_RELEASED
            is_asked = any(status.askedTime for status in statuses)
            return Occurrence.TARGET_ASKED if is_asked else None


def _released_at(cession: Cession, statuses: Sequence[TargetStatus]) -> float:
    """Unix seconds of the last release. A stopped job may use its quota until the deadline."""
    times = [unix(status.releasedTime) for status in statuses]
    if any(status.stopped for status in statuses):
        times.append(unix(cession.spec.deadline))
    return max(times, default=0.0)


def _next_status(
    cession: Cession,
    occurrence: Occurrence | None,
    progress: Sequence[TargetProgress],
    now: float,
) -> CessionStatus:
    old = cession.status
    news: dict[str, object] = {"targets": [target.status for target in progress]}
    if occurrence is None:
        return old.model_copy(update=news)
    stamp = rfc3339(now, micro=True)
    phase = next_phase(old.phase, occurrence)
    news |= {"phase": phase, "message": occurrence.sentence}
    if phase in (CessionPhase.ADMITTED, CessionPhase.COMPLETED):
        news["admittedTime"] = old.admittedTime or stamp
    if phase is CessionPhase.COMPLETED and not old.readyTime:
        waited_s = now - unix(cession.spec.preemptor.creationTime)
        news |= {"readyTime": stamp, "secondsToReady": f"{waited_s:.1f}"}
    if phase not in OPEN:
        news["completionTime"] = old.completionTime or stamp
    return old.model_copy(update=news)


# --- actions --------------------------------------------------------------------------------------
def _reactivate(status: CessionStatus, snapshot: Snapshot) -> Iterator[Action]:
    """Let the stopped jobs be admitted again. At the end of a Cession also those that look active:
    the snapshot may be older than our own stop."""
    stopped = {target.uid for target in status.targets if target.stopped}
    is_over = status.phase not in OPEN
    workloads: list[PendingWorkload | AdmittedWorkload] = [*snapshot.pending, *snapshot.admitted]
    for workload in workloads:
        if workload.identity in stopped and (is_over or not workload.active):
            why = "the preemptor was admitted, or its Cession has ended"
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=why)


def _ceded_events(cession: Cession, status: CessionStatus) -> Iterator[Action]:
    """An event on every released target, when the Cession leaves the phases before Released for a
    phase in which capacity is released."""
    released = (CessionPhase.RELEASED, CessionPhase.ADMITTED, CessionPhase.COMPLETED)
    if cession.status.phase in released or status.phase not in released:
        return
    preemptor = cession.spec.preemptor
    progress = {target.uid: target for target in status.targets}
    for target in cession.spec.targets:
        if progress[target.uid].releasedTime:
            change = f"shrank to {target.toSize}" if target.how == "Shrink" else "stopped"
            step = progress[target.uid].step
            after_step = f" after step {step}" if step else ""
            yield RecordEvent(
                (target.namespace, target.job),
                target.uid,
                SchedulerEvent.CEDED,
                f"{change} for {preemptor.job or preemptor.workload} of {preemptor.queue}"
                f"{after_step}: {cession.spec.why}",
            )


# --- the written status ---------------------------------------------------------------------------
READY_BY_PHASE = {
    CessionPhase.COMPLETED: True,
    CessionPhase.CANCELLED: False,
    CessionPhase.FAILED: False,
}
"""The condition Ready; in other phases it is unknown."""


def _described(cession: Cession, status: CessionStatus, now: float) -> CessionStatus:
    """The status with its condition and its summary for people."""
    generation = cession.metadata.generation or 1
    changes = [
        f"{target.job} {target.fromSize}→{target.toSize}"
        if target.how == "Shrink"
        else f"{target.job} stops"
        for target in cession.spec.targets
    ]
    conditions = set_condition(
        status.conditions,
        names.READY,
        READY_BY_PHASE.get(status.phase),
        status.phase,
        status.message or status.phase.sentence,
        generation=generation,
        now=now,
    )
    return status.model_copy(
        update={
            "targetSummary": ", ".join(changes),
            "conditions": conditions,
            "observedGeneration": generation,
        }
    )
