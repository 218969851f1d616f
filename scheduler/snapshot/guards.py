"""PURE. Guards as they are in the cluster.

A guard is a Job with one pod that never starts, in a ClusterQueue of its own. It has quota, so that
nobody else is admitted into what targets release for one preemptor.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cede.api import names
from cede.api.kueue import ClusterQueue
from cede.api.resources import Quota
from scheduler.snapshot.cluster_quota import is_guard, is_observed, read_quotas
from scheduler.snapshot.workload_index import WaitingIndex
from scheduler.snapshot.workloads import AdmittedWorkload


@dataclass(frozen=True, slots=True)
class Guard:
    """The guard of one Cession."""

    cession: str
    # of its ClusterQueue
    version: str = ""
    # True if its queue is in the Cohort: what it uses is missing there
    in_cohort: bool = False
    # True if Kueue uses the queue's spec as it is now
    is_observed: bool = False
    # True if Kueue has admitted it
    is_admitted: bool = False
    usage: Quota = field(default_factory=Quota)
    # True if it was deleted, and is there until Kueue removes its finalizer
    is_deleted: bool = False
    # what its queue has: what it is made for, as long as it is outside of the Cohort
    nominal: Quota = field(default_factory=Quota)
    # True if Kueue has stopped it: it is never admitted again
    is_stopped: bool = False

    @property
    def is_ended(self) -> bool:
        """Whether Kueue has ended it: at its time limit, or by its own preemption."""
        return self.is_stopped or (self.in_cohort and not self.is_admitted)


def read_guards(
    queues: Iterable[ClusterQueue],
    admitted: Iterable[AdmittedWorkload],
    waiting: WaitingIndex | None = None,
) -> tuple[Guard, ...]:
    """`waiting`: the Workloads without quota."""
    by_queue = {workload.queue: workload for workload in admitted}
    guards = list[Guard]()
    for queue in queues:
        if is_guard(queue):
            cession = queue.metadata.labels[names.GUARD]
            workload = by_queue.get(queue.metadata.name)
            quotas = read_quotas(queue.spec.resourceGroups)
            guards.append(
                Guard(
                    cession=cession,
                    version=queue.metadata.resourceVersion,
                    in_cohort=queue.spec.cohortName == names.COHORT,
                    is_observed=is_observed(queue),
                    is_admitted=workload is not None and workload.active,
                    usage=workload.usage if workload else Quota(),
                    is_deleted=bool(queue.metadata.deletionTimestamp),
                    nominal=Quota({key: quota.nominal for key, quota in quotas.items()}),
                    is_stopped=_is_stopped(cession, workload, waiting or {}),
                )
            )
    return tuple(guards)


def _is_stopped(cession: str, admitted: AdmittedWorkload | None, waiting: WaitingIndex) -> bool:
    if admitted:
        return not admitted.active
    of_guard = waiting.get((names.GUARD_NAMESPACE, cession), {})
    return any(not workload.spec.active for workload, _ in of_guard.values())
