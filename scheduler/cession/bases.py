"""PURE. A surplus waits while its base does not run."""

from collections.abc import Collection, Iterable, Iterator

from cede.api import names
from scheduler.actions import ResizeJob, SetWorkloadActive, resize
from scheduler.cession.stopped_jobs import is_stopping
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.surpluses import Surplus
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload

WHY_STOPPED = "the job that it is the surplus of does not run"
WHY_AGAIN = "the job that it is the surplus of runs again"

Following = ResizeJob | SetWorkloadActive


def follow_bases(
    snapshot: Snapshot,
    now: float,
    *,
    stopping: Collection[str] = (),
    targets: Collection[str] = (),
) -> Iterator[Following]:
    """A surplus alone would train nothing, and could keep its base out of its own quota. One that
    was stopped for a Cession, or by its user, is left alone.

    `stopping` are the uids of Workloads that a Cession stops in this pass: another write would
    replace its mark. `targets` of open Cessions stay stopped: their quota is promised.
    """
    if not snapshot.surpluses:
        return
    surpluses = {surplus.uid: surplus for surplus in snapshot.surpluses}
    waiting = (workload for workload in snapshot.pending if not workload.is_scale_up)
    workloads: list[PendingWorkload | AdmittedWorkload] = [*waiting, *snapshot.admitted]
    for workload in workloads:
        surplus = surpluses.get(workload.job_uid)
        if surplus is None:
            continue
        runs = _has_running_base(snapshot, surplus)
        if workload.active and not runs and workload.uid not in stopping:
            yield _stop(workload)
        is_held = workload.stopped_for == names.NO_BASE and workload.identity not in targets
        if runs and is_held and not is_stopping(workload, snapshot, now):
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=WHY_AGAIN)


def without_bases(snapshot: Snapshot, stopping: Collection[str] = ()) -> set[str]:
    """The uids of the Jobs of surpluses whose base does not run after this pass: they claim
    nothing, and do not grow."""
    return {
        surplus.uid
        for surplus in snapshot.surpluses
        if not _has_running_base(snapshot, surplus, stopping)
    }


def pending_of(jobs: Collection[str], snapshot: Snapshot) -> set[str]:
    """The uids of the pending Workloads of these Jobs, and of their scale-ups."""
    return {w.uid for w in snapshot.pending if w.job_uid in jobs} if jobs else set()


def without_held(
    grown: Iterable[ResizeJob],
    following: Collection[Following],
    snapshot: Snapshot,
    baseless: Collection[str] = (),
) -> tuple[ResizeJob, ...]:
    """The growth of jobs that `following` does not stop, and that are no surplus of a base that a
    Cession stops in this pass: what one of them grew into would be idle only until Kueue has
    stopped it. `baseless` are the uids of these Jobs. A growth of a surplus that Kueue has not
    admitted is withdrawn all the same."""
    waiting = {action.job_uid for action in following if isinstance(action, ResizeJob)}
    stopped = stopped_uids(following)
    if stopped:
        waiting |= {job.job_uid for job in snapshot.admitted if job.uid in stopped}
    return tuple(
        action
        for action in grown
        if action.job_uid not in waiting and (action.shrinks or action.job_uid not in baseless)
    )


def stopped_uids(actions: Iterable[object]) -> set[str]:
    """The Workloads that are made inactive."""
    return {a.uid for a in actions if isinstance(a, SetWorkloadActive) and not a.active}


def go_on(snapshot: Snapshot, now: float) -> Iterator[Following]:
    """Only what lets a surplus run again."""
    for action in follow_bases(snapshot, now):
        if isinstance(action, SetWorkloadActive) and action.active:
            yield action


def _stop(workload: PendingWorkload | AdmittedWorkload) -> Following:
    if isinstance(workload, AdmittedWorkload) and workload.is_growing:
        # its new pods would run on without quota (Kueue 0.19.2)
        return resize(workload, workload.granted, WHY_STOPPED, shrinks=True)
    return SetWorkloadActive(
        workload.key, workload.uid, active=False, why=WHY_STOPPED, cession=names.NO_BASE
    )


def _has_running_base(snapshot: Snapshot, surplus: Surplus, stopping: Collection[str] = ()) -> bool:
    base = snapshot.find_job(surplus.base.identity) if surplus.has_base else None
    if base is None or base.uid in stopping:
        return False
    return base.active and not base.is_evicting
