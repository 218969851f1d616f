"""PURE. A Cession that is under way for a job, and what one has taken from a job."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cede.api import durations
from cede.api.cession import Cession, Target
from cede.api.cession_status import TargetStatus
from cede.api.objects import unix_or_zero
from cede.api.reasons import CessionPhase, CessionReason
from cede.api.wait_reasons import WaitReason
from cede.causes.alternatives import alternative_to
from cede.causes.cessions import job_of, target_text
from cede.causes.facts import Cause, Estimate, estimate

REASONS = {
    CessionPhase.PENDING: WaitReason.CESSION_PENDING,
    CessionPhase.ASKED: WaitReason.CESSION_ASKED,
    CessionPhase.RELEASED: WaitReason.CESSION_RELEASED,
}
UNREPORTED = "the steps since its newest save or copy, which it did not report"
GRACE_HAS_PASSED = (
    "these jobs have given it or had their time, and what is left takes seconds unless a step fails"
)
STAGES = {
    CessionPhase.PENDING: "has not released anything yet",
    CessionPhase.ASKED: "waits until they have saved",
    CessionPhase.RELEASED: "has released it, and Kueue admits the job next",
}


# --- for the job ----------------------------------------------------------------------------------
def why_cession(cession: Cession, now: float) -> Cause:
    """The stage of a Cession that is open."""
    phase = cession.status.phase
    givers = ", ".join(map(target_text, cession.spec.targets)) or "no job"
    message = cession.status.message.rstrip(".")
    more = f" {message}." if message else ""
    deadline = _deadline(cession, now)
    return Cause(
        REASONS[phase],
        f"Cession {cession.metadata.name} takes what it lacks from {givers} "
        f"({cession.spec.reason}), and {STAGES[phase]}.{more}",
        estimate=deadline,
        no_estimate="" if deadline else GRACE_HAS_PASSED,
    )


def _deadline(cession: Cession, now: float) -> Estimate | None:
    """When the last target is resized or stopped even if it has not ceded; None after that. One
    that was not asked yet is asked now."""
    ends = []
    for target in cession.spec.targets:
        status = cession.target_status(target.uid)
        if status.releasedTime:
            continue
        asked = unix_or_zero(status.requestedTime) or now
        ends.append(asked + target.graceSeconds)
    if not ends or max(ends) <= now:
        return None
    basis = "the grace periods of these jobs, if a scheduler leads all the time"
    return estimate(basis, latest=max(ends))


# --- from the job ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Taken:
    """What one Cession has taken from a job, or is about to take."""

    cession: str
    phase: str
    # when it began (RFC 3339)
    started: str
    # namespace/name of the job that needed it
    preemptor: str
    rule: CessionReason
    # Shrink, Drain or Stop
    how: str
    from_size: int
    to_size: int
    # when the capacity was released (RFC 3339); empty until then
    released: str
    # the last step, and the newest that was saved, when it ceded or was stopped; None: it has not
    # reported
    step: int | None
    saved_step: int | None
    # steps that were lost; None: not known
    lost_steps: int | None
    # it was resized or stopped when its grace had passed
    forced: bool
    # the scheduler's plan in its own words
    plan: str
    # what would have been done without it, at what cost, and why that was not done; empty for all
    # but the few targets of a Cession for which that was recorded
    alternative: str


def taken_from(uid: str, cessions: Iterable[Cession]) -> list[Taken]:
    """In the order of the Cessions. `uid` is that of the Job, or of the Workload if no Job owns
    it."""
    return [taken for cession in cessions for taken in _parts(cession, uid)]


def _parts(cession: Cession, uid: str) -> Iterator[Taken]:
    for target in cession.spec.targets:
        if target.uid == uid:
            yield _taken(cession, target, cession.target_status(uid))


def _taken(cession: Cession, target: Target, status: TargetStatus) -> Taken:
    has_reported = bool(status.cededTime or status.step)
    return Taken(
        cession=cession.metadata.name,
        phase=cession.status.phase.value,
        started=cession.metadata.creationTimestamp or "",
        preemptor=job_of(cession),
        rule=cession.spec.reason,
        how=target.how,
        from_size=target.fromSize,
        to_size=target.toSize,
        released=status.releasedTime,
        step=status.step if has_reported else None,
        saved_step=status.durableStep if has_reported else None,
        lost_steps=cession.lost_steps(target),
        forced=bool(status.forcedTime),
        plan=cession.spec.why,
        alternative=alternative_to(cession, target.uid),
    )


def describe_loss(taken: Taken) -> str:
    if taken.lost_steps is None:
        return UNREPORTED if taken.released else ""
    if not taken.lost_steps:
        return "no step"
    return f"{taken.lost_steps} steps: it was at {taken.step}, and had saved {taken.saved_step}"


def age_of(taken: Taken, now: float) -> str:
    return durations.describe(now - unix_or_zero(taken.released or taken.started))
