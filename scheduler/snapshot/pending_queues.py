"""PURE. Reads pending Workloads, LocalQueue by LocalQueue, and brings them into Kueue's order."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from cede.api.kueue import (
    ClusterQueue,
    ClusterQueueStatus,
    LocalQueue,
    ResourceFlavor,
    ResourceFlavorSpec,
    Workload,
)
from cede.api.objects import Key
from cede.api.workload_quota import remaining_counts
from scheduler.quota.eligibility import why_ineligible
from scheduler.quota.flavors import Flavors
from scheduler.quota.pod_sets import read_pod_sets
from scheduler.snapshot.memory import Kept
from scheduler.snapshot.read_workloads import read_pending
from scheduler.snapshot.slices import added_pods
from scheduler.snapshot.workload_index import Waiting
from scheduler.snapshot.workloads import PendingWorkload, PendingWorkloads


class Line(NamedTuple):
    """What waits in a LocalQueue."""

    local_queue: LocalQueue
    queue: ClusterQueue
    # the same object while nothing of it changes
    workloads: Sequence[Waiting]


class PendingQueues:
    """The pending Workloads. Only those of a queue in which something changed are looked at."""

    def __init__(self) -> None:
        self._flavors = Kept[str, Flavors]()
        self._local_queues = Kept[Key, LocalQueue]()
        self._queues = Kept[str, ClusterQueue]()
        self._of_queue = Kept[Key, tuple[PendingWorkload, ...]]()
        # of a queue, each Workload alone
        self._single = Kept[Key, Kept[str, PendingWorkload]]()
        self._all = Kept[str, PendingWorkloads]()

    def read(self, lines: Iterable[Line], flavors: Sequence[ResourceFlavor]) -> PendingWorkloads:
        """All of them in Kueue's order."""
        by_name = self._flavors.get("", _by_name, *flavors)
        parts = [self._read_line(line, by_name) for line in lines]
        return self._all.get("", _in_order, *parts)

    def _read_line(self, line: Line, flavors: Flavors) -> tuple[PendingWorkload, ...]:
        key = line.local_queue.metadata.key
        local_queue = self._local_queues.get(key, _of_any_version, line.local_queue)
        queue = self._queues.get(line.queue.metadata.name, _without_counts, line.queue)
        single = self._single.get(key, Kept[str, PendingWorkload])

        def read(*_: object) -> tuple[PendingWorkload, ...]:
            return _read_waiting(line.workloads, local_queue, queue, flavors, single)

        return self._of_queue.get(key, read, local_queue, queue, flavors, line.workloads)

    def end_pass(self) -> None:
        self._flavors.end_pass()
        self._local_queues.end_pass()
        self._queues.end_pass()
        self._single.end_pass()
        self._of_queue.end_pass()
        self._all.end_pass()


def _read_waiting(
    waiting: Iterable[Waiting],
    local_queue: LocalQueue,
    queue: ClusterQueue,
    flavors: Flavors,
    single: Kept[str, PendingWorkload],
) -> tuple[PendingWorkload, ...]:
    workloads = list[PendingWorkload]()
    for workload, old_slice in waiting:
        sources = (workload, local_queue, queue, flavors, old_slice)
        workloads.append(single.get(workload.metadata.uid, _read_pending, *sources))
    single.end_pass()
    return tuple(workloads)


def _of_any_version(queue: LocalQueue) -> LocalQueue:
    return replace(queue, metadata=replace(queue.metadata, resourceVersion=""))


def _without_counts(queue: ClusterQueue) -> ClusterQueue:
    """What decides about Workloads. Kueue writes new counts with every admission."""
    metadata = replace(queue.metadata, resourceVersion="")
    status = ClusterQueueStatus(conditions=queue.status.conditions)
    return replace(queue, metadata=metadata, status=status)


def _in_order(*parts: Iterable[PendingWorkload]) -> PendingWorkloads:
    return PendingWorkloads(sorted(chain.from_iterable(parts), key=kueue_order))


def kueue_order(workload: PendingWorkload) -> tuple[int, float, str]:
    """Kueue: pkg/cache/queue/cluster_queue.go, baseCompareFunc."""
    return -workload.priority, workload.queued_at, workload.uid


def _by_name(*flavors: ResourceFlavor) -> dict[str, ResourceFlavorSpec]:
    return {flavor.metadata.name: flavor.spec for flavor in flavors}


def _read_pending(
    workload: Workload,
    local_queue: LocalQueue,
    queue: ClusterQueue,
    flavors: Flavors,
    old_slice: Workload | None,
) -> PendingWorkload:
    names_of_flavors = {f.name for group in queue.spec.resourceGroups for f in group.flavors}
    pod_sets = read_pod_sets(workload, remaining_counts(workload), names_of_flavors, flavors)
    if old_slice:
        pod_sets = added_pods(pod_sets, old_slice, names_of_flavors)
    ineligible = why_ineligible(workload, local_queue, queue)
    return read_pending(
        workload, queue.metadata.name, pod_sets, ineligible, is_scale_up=bool(old_slice)
    )
