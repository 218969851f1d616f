"""PURE. The progress of one target of a Cession, and the action that it needs next.

Each step follows from what happened, never from a deadline alone:

1. The runtime is asked for the smaller size.
2. When it has ceded, or its grace period is over, the Job is resized.
3. When a resize had no effect, the job is stopped.
4. When the job is stopped or smaller, the capacity is released. The end of its pods is noted.

A pod of a server is not asked: it drains. Kueue frees its quota when it is being deleted.

Periods count only while this scheduler leads (scheduler/cession/stage_times.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

from cede.api.cession import Cession, Target
from cede.api.cession_status import TargetStatus
from cede.api.objects import rfc3339
from cede.api.pod_owner import END_TIMEOUT_S
from cede.api.short_text import listed
from elastic_runtime.contract import Status
from scheduler.actions import Action, SetWorkloadActive, request_size, resize, shrink
from scheduler.cession.stage_times import led_s, once
from scheduler.cession.unsaved_work import at_release, has_no_accelerators
from scheduler.snapshot.disagreement import DISAGREEMENT_LIMIT_S
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

STOP_AFTER_RESIZE_S = 15.0
"""A Job is stopped when it was resized so long ago without effect."""
EVICTION_TIMEOUT_S = 30.0
"""Kueue has this time, beyond the grace period of the pods, to end a stopped job, and beyond
STOP_AFTER_RESIZE_S to withdraw its scale-up before that."""

MAX_NAMES = 200
"""Characters of the names of jobs in a message."""


@dataclass(frozen=True, slots=True)
class TargetProgress:
    """One target as it is now."""

    target: Target
    # None if its Workload has no quota any more
    job: AdmittedWorkload | None
    # as it will be recorded
    status: TargetStatus
    # True if the job has ceded, or if nothing is waited for any longer
    ready: bool = False
    # False if the preemptor fits without it
    needed: bool = True
    actions: tuple[Action, ...] = ()

    @property
    def released(self) -> bool:
        return bool(self.status.releasedTime)


def find_job(target: Target, snapshot: Snapshot) -> AdmittedWorkload | None:
    return snapshot.find_job(target.uid)


def observe(
    cession: Cession, target: Target, snapshot: Snapshot, now: float, *, needed: bool = True
) -> TargetProgress:
    """What the target's Job and runtime show, with a request to the runtime if it does not know the
    new size yet. A target that is not needed is forgotten: its runtime is asked for the size of its
    Job again."""
    progress = watch(cession, target, snapshot, now)
    job = progress.job
    if job is None or progress.ready:
        return progress
    if progress.status.releasedTime or not needed:
        # the job came back at its old size, must shrink further than before, or is let off
        progress = replace(progress, status=TargetStatus(uid=target.uid))
    if not needed:
        return replace(progress, needed=False)
    return _before_release(cession, progress, job, snapshot, now)


def watch(cession: Cession, target: Target, snapshot: Snapshot, now: float) -> TargetProgress:
    """Whether the target is released; nothing is asked of it."""
    job = find_job(target, snapshot)
    recorded = cession.target_status(target.uid)
    if job is None or _has_shrunk(target, recorded, job):
        # this scheduler or an earlier leader did it, or the job ended by itself
        status = _released(recorded, target, job, snapshot, now)
        return TargetProgress(target, job, status, ready=True)
    # a leader that died after it let the job run again had no time to record the stop
    if recorded.stopped and (not job.active or job.is_evicting):
        status = _released(recorded, target, job, snapshot, now)
        return TargetProgress(target, job, status, ready=True)
    return TargetProgress(target, job, recorded)


def _released(
    recorded: TargetStatus,
    target: Target,
    job: AdmittedWorkload | None,
    snapshot: Snapshot,
    now: float,
) -> TargetStatus:
    """The quota of a stopped job is free before its pods have ended."""
    remaining = max(0, job.ready_pods - target.toSize) if job else 0
    ends_pods = recorded.stopped or target.how == "Drain"
    if ends_pods and target.uid in snapshot.ending:
        remaining = snapshot.ending[target.uid].on_nodes
    news: dict[str, object] = {
        "releasedTime": once(recorded.releasedTime, now),
        "endingPods": remaining if ends_pods else 0,
    }
    if not remaining:
        news["goneTime"] = once(recorded.goneTime, now)
    if job is None and not (recorded.stopped or recorded.releasedTime):
        news["completed"] = snapshot.completed.get(target.uid, 0) > target.toSize
    return _with(recorded, **news)


def _before_release(
    cession: Cession,
    progress: TargetProgress,
    job: AdmittedWorkload,
    snapshot: Snapshot,
    now: float,
) -> TargetProgress:
    target = progress.target
    recorded = progress.status
    news: dict[str, object] = {"requestedTime": once(recorded.requestedTime, now)}
    news["withoutAccelerators"] = has_no_accelerators(job)
    answer = _answer(cession, target, job)
    if answer:
        news["askedTime"] = once(recorded.askedTime, now)
        if answer.ceded(target.toSize) and not recorded.cededTime:
            news |= {"cededTime": once("", now), **at_release(job, now)}
    status = _with(recorded, **news)
    left_s = target.graceSeconds - led_s(status.requestedTime, snapshot.led_since, now)
    is_asked = answer is not None or recorded.stopped
    actions = () if is_asked else _request(cession, target, job, max(0.0, left_s))
    ready = bool(status.cededTime) or left_s <= 0 or not can_be_asked(job)
    return replace(progress, status=status, ready=ready, actions=actions)


def can_be_asked(job: AdmittedWorkload) -> bool:
    """Whether the job has a runtime, or should have one."""
    return job.is_elastic_job or job.runtime is not None


def ready_s(progress: TargetProgress, snapshot: Snapshot, now: float) -> float:
    """Seconds since the target was ready in which this scheduler led; 0.0 or less before."""
    status = progress.status
    if status.cededTime:
        return led_s(status.cededTime, snapshot.led_since, now)
    is_asked = progress.job is not None and can_be_asked(progress.job)
    grace_s = progress.target.graceSeconds if is_asked else 0.0
    return led_s(status.requestedTime, snapshot.led_since, now) - grace_s


def waits_for_agreement(
    cession: Cession, progress: TargetProgress, snapshot: Snapshot, now: float
) -> bool:
    """Whether nothing is forced on the job now: the snapshot contradicts itself or Kueue's own
    count, so what the preemptor lacks may be free already. A job that has ceded loses nothing when
    it is resized. No job is spared for longer than DISAGREEMENT_LIMIT_S after it was ready."""
    needs = {(need.flavor, need.resource) for need in cession.spec.need}
    if progress.released or snapshot.disagreement.isdisjoint(needs):
        return False
    status = progress.status
    stops = progress.target.how == "Stop" or status.stopped
    is_forced = stops or not status.cededTime
    return is_forced and ready_s(progress, snapshot, now) < DISAGREEMENT_LIMIT_S


def release(
    cession: Cession, progress: TargetProgress, snapshot: Snapshot, now: float
) -> TargetProgress:
    """The progress with the action that resizes or stops the job, if that is not done yet.

    A job is stopped only after the Cession records it: otherwise the next leader would not know
    that it must let the job run again.
    """
    job = progress.job
    status = progress.status
    if job is None or status.releasedTime:
        return progress
    news = dict[str, object]()
    if not (status.cededTime or status.step or status.unsaved):
        news |= at_release(job, now)
    if _is_late(cession, progress, job):
        news["forcedTime"] = once(status.forcedTime, now)
    why = f"for {cession.spec.preemptor.name} of {cession.spec.preemptor.queue}"
    actions = progress.actions
    if _stops(progress, snapshot, now):
        news["stopped"] = True
        if cession.target_status(status.uid).stopped and job.active:
            began = "resizeRequestedTime" if snapshot.is_growing(job) else "stopRequestedTime"
            news[began] = once(getattr(status, began), now)
            news["staysStopped"] = job.stays_stopped
            actions = (*actions, *_stop(cession, job, snapshot, why))
    elif job.drains or progress.target.how == "Shrink":
        news["resizeRequestedTime"] = once(status.resizeRequestedTime, now)
        # after some pods have ended a resize would remove others: the job stops in the end
        if not job.ended_pods:
            actions = (*actions, shrink(job, progress.target.toSize, why))
    return replace(progress, status=_with(status, **news), actions=actions)


def _stop(
    cession: Cession, job: AdmittedWorkload, snapshot: Snapshot, why: str
) -> Iterator[Action]:
    """A job that was raised since it was chosen is set back first. Kueue 0.19.2 would take its
    scale-up slice for its Workload, and let its pods run on without quota
    (pkg/workloadslicing/workloadslicing.go, normalizeActiveSlices). One that is raised again and
    again, or that nobody can set back, is overdue in the end (`is_overdue`).
    """
    if not snapshot.is_growing(job):
        # nobody lets a Workload run again that is not marked
        mark = "" if job.stays_stopped else cession.metadata.name
        yield SetWorkloadActive(job.key, job.uid, active=False, why=why, cession=mark)
    elif job.can_be_set_back:
        yield resize(job, job.granted, f"it stops {why}", shrinks=True)


def _is_late(cession: Cession, progress: TargetProgress, job: AdmittedWorkload) -> bool:
    """Whether the runtime was asked, had time to cede, and did not."""
    status = progress.status
    was_asked = bool(status.askedTime) or job.observed.asked_for == cession.metadata.name
    return was_asked and progress.target.graceSeconds > 0 and not status.cededTime


def _stops(progress: TargetProgress, snapshot: Snapshot, now: float) -> bool:
    target, status = progress.target, progress.status
    if target.how == "Stop" or status.stopped:
        return True
    if target.how == "Drain":
        # a server that rolls out drains no pod
        waited_s = led_s(status.requestedTime, snapshot.led_since, now)
        return waited_s >= target.graceSeconds + STOP_AFTER_RESIZE_S
    return led_s(status.resizeRequestedTime, snapshot.led_since, now) >= STOP_AFTER_RESIZE_S


def is_raised(progress: TargetProgress, snapshot: Snapshot) -> bool:
    """Whether the job has to be set back before it can be stopped."""
    is_stopping = progress.status.stopped and not progress.released
    return is_stopping and progress.job is not None and snapshot.is_growing(progress.job)


def is_ending(progress: TargetProgress, snapshot: Snapshot) -> bool:
    """Whether the job was stopped, or is set back before that, and still uses its quota."""
    was_stopped = progress.job is not None and bool(progress.status.stopRequestedTime)
    return was_stopped or is_raised(progress, snapshot)


def is_overdue(progress: TargetProgress, snapshot: Snapshot, now: float) -> bool:
    """Whether its end, or that of its scale-up, has been waited for long enough."""
    status = progress.status
    is_set_back = is_raised(progress, snapshot) and not status.stopRequestedTime
    since = status.resizeRequestedTime if is_set_back else status.stopRequestedTime
    allowed_s = STOP_AFTER_RESIZE_S if is_set_back else progress.target.graceSeconds
    waited_s = led_s(since, snapshot.led_since, now)
    return is_ending(progress, snapshot) and waited_s >= allowed_s + EVICTION_TIMEOUT_S


def ending_reason(progress: Iterable[TargetProgress], snapshot: Snapshot, now: float) -> str:
    """Which stopped jobs still save, and how long they may; empty if none does."""
    jobs = [p.target for p in progress if p.status.endingPods and p.target.uid in snapshot.ending]
    if not jobs:
        return ""
    names = listed([target.name for target in jobs], MAX_NAMES)
    ends_by = max(snapshot.ending[target.uid].ends_by for target in jobs)
    if ends_by == inf:
        return f"Pods of {names} have not ended yet."
    if now >= ends_by + END_TIMEOUT_S:
        return f"Pods of {names} have not ended, although their grace period is over."
    return f"Pods of {names} may save until {rfc3339(ends_by)}."


def _has_shrunk(target: Target, status: TargetStatus, job: AdmittedWorkload) -> bool:
    return target.how == "Shrink" and not status.stopped and job.pods_left <= target.toSize


def _answer(cession: Cession, target: Target, job: AdmittedWorkload) -> Status | None:
    """What the runtime reports, if it is about this Cession and this size."""
    asked, runtime = (cession.metadata.name, target.toSize), job.runtime
    return runtime if runtime and (runtime.cession, runtime.wanted) == asked else None


def _request(
    cession: Cession, target: Target, job: AdmittedWorkload, left_s: float
) -> tuple[Action, ...]:
    """The request to the runtime; none for a job that has no runtime to ask."""
    if not can_be_asked(job) or not job.addresses:
        return ()
    return (request_size(job, target.toSize, cession.metadata.name, left_s),)


def _with(status: TargetStatus, **news: object) -> TargetStatus:
    return status.model_copy(update=news)
