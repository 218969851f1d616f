"""PURE. The progress of one target of a Cession, and the action that it needs next."""

from dataclasses import dataclass, replace

from cede.api.cession import Cession, Target, TargetStatus
from cede.api.objects import rfc3339, unix
from elastic_runtime.contract import Status
from scheduler.actions import Action, RequestSize, ResizeJob, SetWorkloadActive
from scheduler.snapshot import Snapshot
from scheduler.workloads import AdmittedWorkload

STOP_AFTER_DEADLINE_S = 15.0
"""A Job that cannot be made smaller is stopped when this time has passed since the deadline."""


@dataclass(frozen=True, slots=True)
class TargetProgress:
    """One target as it is now."""

    target: Target
    # None if its Workload has no quota any more
    job: AdmittedWorkload | None
    # as it will be recorded
    status: TargetStatus
    # True if the job has ceded, or if nothing is waited for any longer
    ready: bool
    actions: tuple[Action, ...] = ()


def find_job(target: Target, snapshot: Snapshot) -> AdmittedWorkload | None:
    return next((job for job in snapshot.admitted if job.identity == target.uid), None)


def observe(cession: Cession, target: Target, snapshot: Snapshot, now: float) -> TargetProgress:
    """What the target's Job and runtime show, with a request to the runtime if it does not know the
    new size yet."""
    job = find_job(target, snapshot)
    recorded = cession.target_status(target.uid)
    if job is None or _has_shrunk(target, recorded, job):
        # this scheduler or an earlier leader did it, or the job ended by itself
        status = _updated(recorded, target, releasedTime=_once(recorded.releasedTime, now))
        return TargetProgress(target, job, status, ready=True)
    news = dict[str, object]()
    if recorded.stopped and not job.active:
        news["releasedTime"] = _once(recorded.releasedTime, now)
    answer = _answer(cession, target, job)
    if answer:
        news["askedTime"] = _once(recorded.askedTime, now)
        if answer.ceded(target.toSize) and not recorded.cededTime:
            news |= {
                "cededTime": _once("", now),
                "step": answer.step,
                "durableStep": answer.durableStep,
            }
    status = _updated(recorded, target, **news)
    is_late = now >= unix(cession.spec.deadline)
    is_asked = answer is not None or recorded.stopped
    actions = () if is_asked else _request(cession, target, job, now)
    ready = bool(status.cededTime) or is_late or not job.allowed_sizes
    return TargetProgress(target, job, status, ready, actions)


def release(cession: Cession, progress: TargetProgress, now: float) -> TargetProgress:
    """The progress with the action that resizes or stops the job, if that is not done yet.

    A job is stopped only after the Cession records it: otherwise the next leader would not know
    that it must let the job run again.
    """
    job = progress.job
    target = progress.target
    status = progress.status
    if job is None or status.releasedTime:
        return progress
    news = dict[str, object]()
    if job.allowed_sizes and not status.cededTime:
        news["forcedTime"] = _once(status.forcedTime, now)
    preemptor = cession.spec.preemptor
    why = f"for {preemptor.job or preemptor.workload} of {preemptor.queue}"
    cannot_shrink = now >= unix(cession.spec.deadline) + STOP_AFTER_DEADLINE_S
    actions = progress.actions
    if target.how == "Shrink" and not cannot_shrink:
        resize = ResizeJob(
            job=job.job,
            job_uid=job.job_uid,
            version=job.job_version,
            size=target.toSize,
            shrinks=True,
            why=why,
        )
        actions = (*actions, resize)
    else:
        news["stopped"] = True
        if cession.target_status(target.uid).stopped and job.active:
            name = cession.metadata.name
            stop = SetWorkloadActive(job.key, job.uid, active=False, why=why, cession=name)
            actions = (*actions, stop)
    return replace(progress, status=_updated(status, target, **news), actions=actions)


def _has_shrunk(target: Target, status: TargetStatus, job: AdmittedWorkload) -> bool:
    return target.how == "Shrink" and not status.stopped and job.parallelism <= target.toSize


def _answer(cession: Cession, target: Target, job: AdmittedWorkload) -> Status | None:
    """What the runtime reports, if it is about this Cession and this size."""
    if job.runtime is None or job.runtime.cession != cession.metadata.name:
        return None
    return job.runtime if job.runtime.wanted == target.toSize else None


def _request(
    cession: Cession, target: Target, job: AdmittedWorkload, now: float
) -> tuple[Action, ...]:
    """The request to the runtime; none for a job that has no runtime to ask."""
    if not job.allowed_sizes or not job.address:
        return ()
    deadline_s = max(0.0, unix(cession.spec.deadline) - now)
    name = cession.metadata.name
    return (RequestSize(job.job, job.job_uid, job.address, target.toSize, name, deadline_s),)


def _updated(status: TargetStatus, target: Target, **news: object) -> TargetStatus:
    return status.model_copy(update={"job": target.job} | news)


def _once(time: str, now: float) -> str:
    """The recorded time; now if there is none yet."""
    return time or rfc3339(now, micro=True)
