"""PURE. Jobs that were stopped for a preemptor run again, whatever became of its Cession."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from cede.api.cession import Cession
from scheduler.actions import SetWorkloadActive
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


def run_again(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Iterator[SetWorkloadActive]:
    """Activates the Workloads whose label names a Cession that is not open: it was deleted, or its
    last write was lost. Not before Kueue has evicted them: it frees the quota of an inactive
    Workload at once, and would leave one that is active again its quota (Kueue:
    pkg/controller/core/workload_controller.go)."""
    names = {cession.metadata.name for cession in open_cessions}
    workloads: list[PendingWorkload | AdmittedWorkload] = [*snapshot.pending, *snapshot.admitted]
    for workload in filter(attrgetter("stopped_for"), workloads):
        if workload.stopped_for not in names and not _is_stopping(workload):
            why = f"Cession {workload.stopped_for}, for which it was stopped, is not open"
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=why)


def _is_stopping(workload: PendingWorkload | AdmittedWorkload) -> bool:
    """Whether Kueue has yet to evict it."""
    if not isinstance(workload, AdmittedWorkload):
        return False
    return not workload.active and not workload.is_evicted
