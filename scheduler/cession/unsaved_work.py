"""PURE. What a job would have to do again if it were stopped now."""

from collections.abc import Mapping

from cede.api.cession_status import MAX_KINDS, UnsavedWork
from cede.api.resources import NOT_ACCELERATORS, FlavorResource
from scheduler.snapshot.workloads import AdmittedWorkload


def unsaved_seconds(job: AdmittedWorkload, now: float) -> Mapping[FlavorResource, float | None]:
    """Seconds of one accelerator since the newest save that this scheduler saw, for each kind that
    the job has; None: nobody knows, because its runtime does not answer, or it has none."""
    is_known = job.runtime is not None and job.observed.since > 0
    unsaved_s = job.observed.unsaved_s(now) if is_known else None
    return {
        kind: None if unsaved_s is None else unsaved_s * amount * job.size
        for kind, amount in _accelerators(job).items()
    }


def has_no_accelerators(job: AdmittedWorkload) -> bool:
    """Whether that is certain: Kueue counts something for its pods, and no accelerator."""
    return bool(job.per_pod) and not _accelerators(job)


def at_release(job: AdmittedWorkload, now: float) -> dict[str, object]:
    """What the status of a target records: the fields step, durableStep and unsaved."""
    runtime = job.runtime
    if runtime is None:
        return {"unsaved": _record(unsaved_seconds(job, now))}
    has_saved = runtime.durableStep >= runtime.step > 0
    return {
        "step": runtime.step,
        "durableStep": runtime.durableStep,
        "unsaved": [] if has_saved else _record(unsaved_seconds(job, now)),
    }


def _accelerators(job: AdmittedWorkload) -> Mapping[FlavorResource, int]:
    """Of one pod, by kind."""
    return {
        kind: amount
        for kind, amount in job.per_pod.items()
        if amount and kind[1] not in NOT_ACCELERATORS
    }


def _record(seconds: Mapping[FlavorResource, float | None]) -> list[UnsavedWork]:
    return [
        UnsavedWork(
            flavor=flavor,
            resource=resource,
            seconds="" if value is None else f"{value:.1f}",
        )
        for (flavor, resource), value in sorted(seconds.items())[:MAX_KINDS]
    ]
