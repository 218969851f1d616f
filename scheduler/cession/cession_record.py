"""PURE. What is written into a Cession: its next status, with a condition and a summary."""

from collections.abc import Sequence

from cede.api import names
from cede.api.cession import ENDED, Cession, Target
from cede.api.cession_status import CessionStatus, TargetStatus
from cede.api.objects import rfc3339, set_condition, unix
from cede.api.reasons import CessionPhase
from cede.api.short_text import cut, listed
from scheduler.cession.cession_lifecycle import Occurrence, next_phase
from scheduler.cession.stage_times import once

MAX_SUMMARY = 1024
MAX_MESSAGE = 2048
READY_BY_PHASE = {
    CessionPhase.COMPLETED: True,
    CessionPhase.CANCELLED: False,
    CessionPhase.FAILED: False,
}
"""The condition Ready; in other phases it is unknown."""


def next_status(
    cession: Cession,
    occurrence: Occurrence | None,
    targets: Sequence[TargetStatus],
    now: float,
    details: str = "",
) -> CessionStatus:
    """The status after this pass. `details` follow the sentence of what happened."""
    old = cession.status
    news: dict[str, object] = {"targets": list(targets)}
    if occurrence is None:
        return old.model_copy(update=news)
    phase = next_phase(old.phase, occurrence)
    message = f"{occurrence.sentence} {details}".rstrip()
    news |= {"phase": phase, "message": cut(message, MAX_MESSAGE)}
    if phase is CessionPhase.ASKED:
        news["releasedTime"] = ""
    if phase is CessionPhase.RELEASED:
        news["releasedTime"] = once(old.releasedTime, now)
    if phase in (CessionPhase.ADMITTED, CessionPhase.COMPLETED):
        news["admittedTime"] = once(old.admittedTime, now)
    if phase is CessionPhase.COMPLETED and not old.readyTime:
        waited_s = now - unix(cession.spec.preemptor.creationTime)
        news |= {"readyTime": rfc3339(now, micro=True), "secondsToReady": f"{waited_s:.1f}"}
    if phase in ENDED:
        news["completionTime"] = once(old.completionTime, now)
    return old.model_copy(update=news)


def described(cession: Cession, status: CessionStatus, now: float) -> CessionStatus:
    """The status with its condition and its summary for people."""
    generation = cession.metadata.generation or 1
    changes = [_change(target) for target in cession.spec.targets]
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
            "targetSummary": listed(changes, MAX_SUMMARY),
            "conditions": conditions,
            "observedGeneration": generation,
        }
    )


def _change(target: Target) -> str:
    if target.how == "Shrink":
        return f"{target.job} {target.fromSize}→{target.toSize}"
    return f"{target.name} {'drains' if target.how == 'Drain' else 'stops'}"
