"""PURE. The actions of one pass for a Cession that has not ended. Every action can be repeated
without harm.

1. Observe the targets: which of them are needed, were asked, have ceded, are released.
2. Resize or stop the targets that are ready.
3. Determine what happened, and look up the next phase in scheduler/cession/cession_lifecycle.py.
4. Record the new status after all other actions.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from cede.api.cession import ENDED, OPEN, Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import unix
from cede.api.reasons import CessionPhase
from cede.api.short_text import cut, listed
from scheduler.actions import Action
from scheduler.cession.cession_lifecycle import (
    ADMISSION_TIMEOUT_S,
    INELIGIBLE_TIMEOUT_S,
    KUEUE_TIMEOUT_S,
    RESERVATION_TIMEOUT_S,
    Occurrence,
)
from scheduler.cession.cession_record import MAX_MESSAGE, next_status
from scheduler.cession.preemptor_state import (
    PreemptorState,
    find_preemptor,
    pods_are_ready,
    starting_reason,
    waiting_reason,
)
from scheduler.cession.promises import needed_targets, suffices, takers, target_uids
from scheduler.cession.recording import recording
from scheduler.cession.reservation import Reservation, prepare
from scheduler.cession.stage_times import led_s, once
from scheduler.cession.target_progress import (
    MAX_NAMES,
    TargetProgress,
    ending_reason,
    is_ending,
    is_overdue,
    is_raised,
    observe,
    ready_s,
    release,
    waits_for_agreement,
    watch,
)
from scheduler.quota.assignments import assign
from scheduler.snapshot.disagreement import DISAGREEMENT_LIMIT_S
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload


@dataclass(frozen=True, slots=True)
class Step:
    """One pass for one Cession."""

    actions: tuple[Action, ...]
    # the uids of the targets that are asked for another size than their Job has
    asked: frozenset[str] = frozenset()
    occurrence: Occurrence | None = None
    # whether the Cession is still open afterwards
    is_open: bool = False


def advance(
    cession: Cession, snapshot: Snapshot, now: float, others: Collection[Cession] = ()
) -> Step:
    """One pass. The update of the status comes after all actions on jobs, queues and Workloads.
    `others` are the other open Cessions, whose promises are kept."""
    preemptor = find_preemptor(cession, snapshot)
    ineligible_since = _ineligible_since(cession, preemptor, now)
    is_waiting = _is_waiting(cession, preemptor, snapshot) and not ineligible_since
    reservation = Reservation()
    short_since = ""
    given_up = list[TargetProgress]()
    if is_waiting:
        progress = _observe(cession, snapshot, now, others)
        given_up = [t for t in progress if _is_given_up(t, snapshot, now)]
        rest = target_uids([cession]) - {target.target.uid for target in given_up}
        is_released = cession.status.phase is CessionPhase.RELEASED
        if not is_released and not suffices(cession, snapshot, others, rest):
            short_since = once(cession.status.shortTime, now)
        ready = {
            target.target.uid: target.ready
            and not waits_for_agreement(cession, target, snapshot, now)
            for target in progress
            if target.needed
        }
        reservation = prepare(cession, snapshot, now, ready)
        # nobody is stopped for a preemptor that would not fit all the same
        if reservation.may_release and not short_since:
            progress = _release_ready(cession, progress, snapshot, now)
    else:
        progress = [watch(cession, target, snapshot, now) for target in cession.spec.targets]
    occurrence = _occurrence(cession, preemptor, ineligible_since, progress, snapshot, now)
    if occurrence is Occurrence.ALL_RELEASED and given_up and short_since:
        # without those, the others would release for nothing
        occurrence = None
    is_short = led_s(short_since, snapshot.led_since, now) > ADMISSION_TIMEOUT_S
    if occurrence in (None, Occurrence.TARGET_ASKED):
        if is_short:
            occurrence = Occurrence.CAPACITY_TAKEN
        elif is_waiting and not reservation.may_release and _is_held_up(progress, snapshot, now):
            occurrence = Occurrence.NOT_RESERVED
    statuses = [target.status for target in progress]
    details = _details(cession, occurrence, preemptor, snapshot, given_up)
    status = next_status(cession, occurrence, statuses, now, details)
    news = {"ineligibleTime": ineligible_since}
    if is_waiting:
        news["reservedTime"] = reservation.since
        news["shortTime"] = short_since
    status = status.model_copy(update=news)
    is_open = status.phase in OPEN
    if status.phase not in ENDED:
        reasons = [ending_reason(progress, snapshot, now)]
        if preemptor.admitted:
            waited_s = now - unix(status.admittedTime)
            reasons.insert(0, starting_reason(cession.spec.preemptor, preemptor.admitted, waited_s))
        if is_waiting and is_open:
            contradiction = _contradiction(cession, progress, snapshot, now)
            reasons += [contradiction, reservation.message, _given_up_reason(given_up)]
        status = _with_reasons(status, reasons)
    asked = {target.target.uid for target in progress if target.needed and is_open}
    actions = list[Action]()
    if is_waiting and is_open:
        actions += reservation.actions
        actions += [action for target in progress for action in target.actions]
    actions += recording(cession, status, now)
    return Step(tuple(actions), frozenset(asked), occurrence, is_open)


# --- the targets ----------------------------------------------------------------------------------
def _observe(
    cession: Cession, snapshot: Snapshot, now: float, others: Collection[Cession]
) -> list[TargetProgress]:
    needed = needed_targets(cession, snapshot, others)
    return [
        observe(cession, target, snapshot, now, needed=target.uid in needed)
        for target in cession.spec.targets
    ]


def _release_ready(
    cession: Cession, progress: Sequence[TargetProgress], snapshot: Snapshot, now: float
) -> list[TargetProgress]:
    """All capacity is released at once: when all targets are ready, the stops among them are
    recorded, and those that were raised since are set back. What one job released earlier would lie
    idle until the slowest is ready, and keep other teams out."""
    needed = [target for target in progress if target.needed]
    if not all(
        target.ready and not waits_for_agreement(cession, target, snapshot, now)
        for target in needed
    ):
        return list(progress)
    unrecorded = [target for target in needed if _is_unrecorded_stop(target)]
    raised = [t for t in needed if is_raised(t, snapshot) and not is_overdue(t, snapshot, now)]
    chosen = {target.target.uid for target in unrecorded or raised or needed}
    return [
        release(cession, target, snapshot, now) if target.target.uid in chosen else target
        for target in progress
    ]


def _is_unrecorded_stop(progress: TargetProgress) -> bool:
    return progress.target.how == "Stop" and not progress.released and not progress.status.stopped


def _contradiction(
    cession: Cession, progress: Sequence[TargetProgress], snapshot: Snapshot, now: float
) -> str:
    """Why nothing is forced on a target that is ready; empty if it may be."""
    ready = [target for target in progress if target.needed and target.ready]
    if not any(waits_for_agreement(cession, target, snapshot, now) for target in ready):
        return ""
    queues = ", ".join(sorted({queue for queue, _ in snapshot.disagreements}))
    return (
        f"What is in use in {queues} differs from Kueue's own count, so capacity may be free "
        f"already: no job is forced until both agree, or for {DISAGREEMENT_LIMIT_S:.0f} s."
    )


def _given_up_reason(given_up: Iterable[TargetProgress]) -> str:
    names = listed([target.target.name for target in given_up], MAX_NAMES)
    return f"Given up, because they still use their quota: {names}." if names else ""


def _with_reasons(status: CessionStatus, reasons: Iterable[str]) -> CessionStatus:
    """With the reasons after the sentence of its phase, and without those of an earlier pass."""
    given = list(filter(None, reasons))
    sentence = status.phase.sentence
    if not given and not status.message.startswith(f"{sentence} "):
        return status
    message = cut(" ".join((sentence, *given)), MAX_MESSAGE)
    return status.model_copy(update={"message": message})


# --- what happened --------------------------------------------------------------------------------
def _ineligible_since(cession: Cession, preemptor: PreemptorState, now: float) -> str:
    """Since when Kueue would not try the preemptor; empty if it would, or if it is admitted."""
    if preemptor.pending is None or not preemptor.pending.ineligible:
        return ""
    return once(cession.status.ineligibleTime, now)


def _is_waiting(cession: Cession, preemptor: PreemptorState, snapshot: Snapshot) -> bool:
    """Whether the preemptor is pending for the first time, in a queue that exists."""
    if not cession.open or preemptor.pending is None or not preemptor.pending.active:
        return False
    return cession.spec.preemptor.queue in snapshot.quota.queues


def _occurrence(
    cession: Cession,
    preemptor: PreemptorState,
    ineligible_since: str,
    progress: Sequence[TargetProgress],
    snapshot: Snapshot,
    now: float,
) -> Occurrence | None:
    if preemptor.admitted:
        if pods_are_ready(preemptor.admitted):
            return Occurrence.PREEMPTOR_READY
        return Occurrence.PREEMPTOR_ADMITTED
    if preemptor.finished:
        return Occurrence.PREEMPTOR_FINISHED
    if preemptor.pending is None:
        return Occurrence.PREEMPTOR_DELETED
    if not cession.open:
        return Occurrence.ADMISSION_LOST
    if not _is_waiting(cession, preemptor, snapshot):
        return Occurrence.PREEMPTOR_DEACTIVATED
    if ineligible_since:
        is_over = led_s(ineligible_since, snapshot.led_since, now) > INELIGIBLE_TIMEOUT_S
        return Occurrence.PREEMPTOR_INELIGIBLE if is_over else None
    if cession.status.phase is CessionPhase.RELEASED:
        return _while_released(cession, preemptor.pending, progress, snapshot, now)
    return _before_release(progress, snapshot, now)


def _details(
    cession: Cession,
    occurrence: Occurrence | None,
    preemptor: PreemptorState,
    snapshot: Snapshot,
    given_up: Iterable[TargetProgress],
) -> str:
    if occurrence is Occurrence.CAPACITY_TAKEN:
        return " ".join(filter(None, (takers(cession, snapshot), _given_up_reason(given_up))))
    return waiting_reason(occurrence, preemptor.pending) if preemptor.pending else ""


def _is_left(progress: TargetProgress, snapshot: Snapshot, now: float) -> bool:
    """Whether capacity of this target is still waited for."""
    is_done = progress.released or is_overdue(progress, snapshot, now)
    return progress.needed and not is_done


def _is_given_up(progress: TargetProgress, snapshot: Snapshot, now: float) -> bool:
    is_missed = progress.needed and not progress.released
    return is_missed and is_overdue(progress, snapshot, now)


def _before_release(
    progress: Sequence[TargetProgress], snapshot: Snapshot, now: float
) -> Occurrence | None:
    if not any(_is_left(target, snapshot, now) for target in progress):
        return Occurrence.ALL_RELEASED
    is_asked = any(target.status.askedTime for target in progress)
    return Occurrence.TARGET_ASKED if is_asked else None


def _is_held_up(progress: Sequence[TargetProgress], snapshot: Snapshot, now: float) -> bool:
    """Whether all targets have been ready for so long that the release must have happened."""
    waited = [ready_s(t, snapshot, now) for t in progress if _is_left(t, snapshot, now)]
    return bool(waited) and min(waited) > RESERVATION_TIMEOUT_S


def _while_released(
    cession: Cession,
    pending: PendingWorkload,
    progress: Sequence[TargetProgress],
    snapshot: Snapshot,
    now: float,
) -> Occurrence | None:
    if any(_is_left(target, snapshot, now) for target in progress):
        return Occurrence.TARGETS_NEEDED
    if any(is_ending(t, snapshot) and not is_overdue(t, snapshot, now) for t in progress):
        return None
    ends = [t.status.goneTime for t in progress if t.status.stopped and t.status.goneTime]
    since = max([cession.status.releasedTime, *ends], key=unix)
    waited_s = led_s(since, snapshot.led_since, now)
    if assign(pending.pod_sets, pending.queue, snapshot.quota) is not None:
        return Occurrence.NOT_ADMITTED if waited_s > KUEUE_TIMEOUT_S else None
    return Occurrence.CAPACITY_TAKEN if waited_s > ADMISSION_TIMEOUT_S else None
