"""PURE. The status of the job, as the coordinator reports it to controllers and people."""

import math

from elastic_runtime.agent.job_progress import JobProgress
from elastic_runtime.agent.membership_view import Member, View
from elastic_runtime.agent.status_text import describe, slow_pod
from elastic_runtime.contract import State, Status


def status(view: View, progress: JobProgress, silent_before: float) -> Status:
    """Pods that last reported earlier than `silent_before` count as silent."""
    job_state = state(view, progress)
    parked = [
        member.index
        for member in view.members.values()
        if member.parked and member.reported_at >= silent_before
    ]
    is_training = job_state == State.TRAINING
    own_seconds = {index: progress.own_s.get(index, 0.0) for index in view.record.members}
    return Status(
        state=job_state,
        size=0 if job_state == State.STOPPED else len(view.record.members),
        wanted=view.wanted or 0,
        cession=view.cession,
        generation=view.record.generation,
        step=_step(view, progress),
        durableStep=progress.durable_step,
        digest=progress.digest,
        stepSeconds=round(progress.median_step_s, 4),
        samplesPerSecond=round(is_training * progress.samples_per_second, 3),
        saveSeconds=round(progress.save_s, 4),
        pauseSeconds=round(progress.pause_s, 4),
        loss=_finite(progress.loss),
        parked=tuple(sorted(parked)),
        message=progress.text(view.wanted),
        busy=describe(job_state, view, silent_before, progress.durable_step)
        + (slow_pod(own_seconds) if is_training else ""),
        saveMessage=progress.save_message,
    )


def state(view: View, progress: JobProgress) -> str:
    """One of `State`."""
    record = view.record
    if progress.finished:
        return State.FINISHED
    if record.stop:
        members = _members(view)
        all_parked = members and all(member.parked for member in members)
        return State.STOPPED if all_parked else State.STOPPING
    if record.generation == 0:
        return State.STARTING
    wanted = view.wanted
    has_surplus = wanted and any(index >= wanted for index in record.members)
    return State.TRAINING if _has_formed(view) and not has_surplus else State.RESIZING


def _step(view: View, progress: JobProgress) -> int:
    """The newest step of the members that have formed; it is known before they commit one."""
    record = view.record
    steps = [
        member.step
        for member in _members(view)
        if member.generation == record.generation or (member.parked and record.stop)
    ]
    return max(steps, default=progress.step)


def _members(view: View) -> list[Member]:
    """Of the newest generation, as far as they have reported."""
    return [view.members[index] for index in view.record.members if index in view.members]


def _has_formed(view: View) -> bool:
    """Whether all members train in the newest generation."""
    members = _members(view)
    return (
        bool(members)
        and len(members) == len(view.record.members)
        and all(member.generation == view.record.generation for member in members)
    )


def _finite(loss: float | None) -> float | None:
    return None if loss is None or not math.isfinite(loss) else round(loss, 6)
