"""PURE. Guards as they are in the cluster.

A guard is a Job with one pod that never starts, in a ClusterQueue of its own. It has quota, so that
nobody else is admitted into what targets release for one preemptor.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cede.api import names
from cede.api.kueue import ClusterQueue
from cede.api.objects import condition
from cede.api.resources import Quota
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

    @property
    def is_ended(self) -> bool:
        """Whether Kueue has ended it: at its time limit, or by its own preemption."""
        return self.in_cohort and not self.is_admitted


def is_guard(queue: ClusterQueue) -> bool:
    return bool(queue.metadata.labels.get(names.GUARD))


def read_guards(
    queues: Iterable[ClusterQueue], admitted: Iterable[AdmittedWorkload]
) -> tuple[Guard, ...]:
    by_queue = {workload.queue: workload for workload in admitted}
    guards = list[Guard]()
    for queue in queues:
        if is_guard(queue):
            workload = by_queue.get(queue.metadata.name)
            guards.append(
                Guard(
                    cession=queue.metadata.labels[names.GUARD],
                    version=queue.metadata.resourceVersion,
                    in_cohort=queue.spec.cohortName == names.COHORT,
                    is_observed=is_observed(queue),
                    is_admitted=workload is not None and workload.active,
                    usage=workload.usage if workload else Quota(),
                    is_deleted=bool(queue.metadata.deletionTimestamp),
                )
            )
    return tuple(guards)


def is_observed(queue: ClusterQueue) -> bool:
    """Kueue writes the condition after it has put the spec into its cache (Kueue:
    pkg/controller/core/clusterqueue_controller.go)."""
    active = condition(queue.status.conditions, names.ACTIVE)
    return active is not None and active.observedGeneration >= queue.metadata.generation
