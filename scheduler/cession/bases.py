"""PURE. A surplus waits while its base does not run."""

from collections.abc import Iterator

from cede.api import names
from cede.api.surplus import Base
from scheduler.actions import ResizeJob, SetWorkloadActive, resize
from scheduler.cession.stopped_jobs import is_stopping
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload

WHY_STOPPED = "the job that it is the surplus of does not run"
WHY_AGAIN = "the job that it is the surplus of runs again"


def follow_bases(snapshot: Snapshot, now: float) -> Iterator[ResizeJob | SetWorkloadActive]:
    """A surplus alone would train nothing, and could keep its base out of its own quota. One that
    was stopped for a Cession, or by its user, is left alone."""
    if not snapshot.surpluses:
        return
    surpluses = {surplus.uid: surplus for surplus in snapshot.surpluses}
    waiting = (workload for workload in snapshot.pending if not workload.is_scale_up)
    workloads: list[PendingWorkload | AdmittedWorkload] = [*waiting, *snapshot.admitted]
    for workload in workloads:
        surplus = surpluses.get(workload.job_uid)
        if surplus is None:
            continue
        runs = surplus.has_base and _runs(snapshot, surplus.base)
        if workload.active and not runs:
            yield _stop(workload)
        is_held = workload.stopped_for == names.NO_BASE
        if runs and is_held and not is_stopping(workload, snapshot, now):
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=WHY_AGAIN)


def _stop(workload: PendingWorkload | AdmittedWorkload) -> ResizeJob | SetWorkloadActive:
    if isinstance(workload, AdmittedWorkload) and workload.is_growing:
        # its new pods would run on without quota (Kueue 0.19.2)
        return resize(workload, workload.size, WHY_STOPPED, shrinks=True)
    return SetWorkloadActive(
        workload.key, workload.uid, active=False, why=WHY_STOPPED, cession=names.NO_BASE
    )


def _runs(snapshot: Snapshot, base: Base) -> bool:
    workload = snapshot.find_job(base.identity)
    return workload is not None and workload.active and not workload.is_evicting
