"""PURE. Jobs that were stopped for a preemptor run again, whatever became of its Cession."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from cede.api.cession import Cession
from scheduler.actions import SetWorkloadActive
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


def run_again(snapshot: Snapshot, open_cessions: Sequence[Cession]) -> Iterator[SetWorkloadActive]:
    """Activates the Workloads whose label names a Cession that is not open: it was deleted, or its
    last write was lost."""
    names = {cession.metadata.name for cession in open_cessions}
    workloads: list[PendingWorkload | AdmittedWorkload] = [*snapshot.pending, *snapshot.admitted]
    for workload in filter(attrgetter("stopped_for"), workloads):
        if workload.stopped_for not in names:
            why = f"Cession {workload.stopped_for}, for which it was stopped, is not open"
            yield SetWorkloadActive(workload.key, workload.uid, active=True, why=why)
