"""PURE. Jobs that were stopped for a preemptor run again, whatever became of its Cession. Those
that waited and are set aside have an event that says so."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from cede.api import names
from cede.api.cession import Cession
from cede.api.reasons import SchedulerEvent
from scheduler.actions import Action, RecordEvent, SetWorkloadActive
from scheduler.snapshot.ending_pods import is_ending
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


def run_again(
    snapshot: Snapshot, open_cessions: Sequence[Cession], now: float
) -> Iterator[SetWorkloadActive]:
    """Activates the Workloads whose label names a Cession that is not open: it was deleted, or its
    last write was lost. Not before Kueue has evicted them: it frees the quota of an inactive
    Workload at once, and would leave one that is active again its quota (Kueue:
    pkg/controller/core/workload_controller.go). Nor before its pods have ended: new ones would
    continue from what the old ones have not saved yet."""
    known = {cession.metadata.name for cession in open_cessions} | {names.NO_BASE}
    workloads: list[PendingWorkload | AdmittedWorkload] = [*snapshot.pending, *snapshot.admitted]
    for workload in filter(attrgetter("stopped_for"), workloads):
        if workload.stopped_for not in known and not is_stopping(workload, snapshot, now):
            why = f"Cession {workload.stopped_for}, for which it was stopped, is not open"
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=why)


def is_stopping(
    workload: PendingWorkload | AdmittedWorkload, snapshot: Snapshot, now: float
) -> bool:
    """Whether Kueue has yet to evict it, or its pods have yet to end. A scale-up that is set aside
    has none of its own: the pods are those of the job that runs."""
    if workload.active:
        return False
    if isinstance(workload, AdmittedWorkload) and not workload.is_evicted:
        return True
    job = snapshot.find_job(workload.identity)
    runs = job is not None and job.active
    return not runs and is_ending(snapshot.ending.get(workload.identity), now)


def set_aside_events(actions: Iterable[Action], snapshot: Snapshot) -> Iterator[RecordEvent]:
    """An event on the job of each pending Workload that is made inactive. A job that runs has one
    once it has released its capacity."""
    for action in actions:
        if not isinstance(action, SetWorkloadActive) or action.active:
            continue
        workload = snapshot.find_pending(action.uid)
        if workload:
            note = f"until Cession {action.cession} has ended: {action.why}"
            yield RecordEvent(workload.job, workload.job_uid, SchedulerEvent.SET_ASIDE, note)
