"""PURE. A copy of a cluster's objects, which the consequences of a question change."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from cede.api import names
from cede.api.kueue import Pod, Workload
from cede.api.objects import DEPLOYMENTS, LEADER_WORKER_SETS, Condition, Key, is_true, rfc3339
from cede.api.pod_owner import job_owners, pod_owner
from cede.api.policy import PolicySpec
from cede.api.servers import Deployment, LeaderWorkerSet
from cede.api.workload_identity import identity
from elastic_runtime.contract import State, Status
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.read_workloads import allowed_sizes
from scheduler.snapshot.snapshot import RawObjects, Snapshot
from scheduler.snapshot.workloads import ServerId


class World:
    """The objects as they would be. `now`, in Unix seconds, is set by whoever plans on them.

    Worlds that differ in a few objects may share a memory, so that the others are read once.
    """

    def __init__(
        self, objects: RawObjects, policy: PolicySpec, now: float, memory: snapshots.Memory
    ) -> None:
        self.policy = policy
        self.now = now
        # all that jobs and take-backs do not change
        self.rest = objects
        self.workloads = {item.metadata.key: item for item in objects.workloads}
        self.jobs = {item.metadata.key: item for item in objects.jobs}
        self.servers: dict[ServerId, Deployment | LeaderWorkerSet] = {}
        for kind, items in (
            (DEPLOYMENTS, objects.deployments),
            (LEADER_WORKER_SETS, objects.leader_worker_sets),
        ):
            self.servers |= {(kind, item.metadata.key): item for item in items}
        # by namespace
        self._pods = defaultdict[str, dict[Key, Pod]](dict)
        for pod in objects.pods:
            self.put_pod(pod)
        self.queues = {item.metadata.name: item for item in objects.cluster_queues}
        self.cessions = {item.metadata.name: item for item in objects.cessions}
        self.statuses = dict(objects.statuses)
        self._memory = memory

    @property
    def objects(self) -> RawObjects:
        servers = self.servers.values()
        return replace(
            self.rest,
            workloads=tuple(self.workloads.values()),
            jobs=tuple(self.jobs.values()),
            deployments=tuple(s for s in servers if isinstance(s, Deployment)),
            leader_worker_sets=tuple(s for s in servers if isinstance(s, LeaderWorkerSet)),
            pods=tuple(self.pods),
            cluster_queues=tuple(self.queues.values()),
            cessions=tuple(self.cessions.values()),
            statuses=self.statuses,
        )

    def snapshot(self) -> Snapshot:
        """What the scheduler would read of them."""
        return snapshots.take(self.objects, self._memory)

    # --- Workloads --------------------------------------------------------------------------------
    def put(self, workload: Workload) -> None:
        """Kueue's own count of its queue is of before: it does not count from now on."""
        before = self.workloads.get(workload.metadata.key)
        self.workloads[workload.metadata.key] = workload
        for version in (before, workload):
            self._forget_count(version)

    def remove(self, workload: Workload) -> None:
        self._forget_count(self.workloads.pop(workload.metadata.key, None))

    def _forget_count(self, workload: Workload | None) -> None:
        admission = workload.status.admission if workload else None
        if admission and admission.clusterQueue in self.queues:
            queue = self.queues[admission.clusterQueue]
            status = replace(queue.status, flavorsReservation=())
            self.queues[admission.clusterQueue] = replace(queue, status=status)

    def workloads_of(self, namespace: str, uid: str) -> list[Workload]:
        """Of the job with this identity; without those that have finished."""
        return [
            workload
            for workload in self.workloads.values()
            if workload.metadata.namespace == namespace
            and identity(workload) == uid
            and not is_true(workload.status.conditions, names.FINISHED)
        ]

    # --- pods -------------------------------------------------------------------------------------
    @property
    def pods(self) -> Iterator[Pod]:
        """All of them."""
        return chain.from_iterable(pods.values() for pods in self._pods.values())

    def count_pods(self) -> int:
        return sum(map(len, self._pods.values()))

    def pods_of(self, workload: Workload) -> list[Pod]:
        owners = job_owners(workload.metadata.key, identity(workload))
        pods = self._pods[workload.metadata.namespace].values()
        return [pod for pod in pods if pod_owner(pod) in owners]

    def put_pod(self, pod: Pod) -> None:
        """In place of one of the same name."""
        self._pods[pod.metadata.namespace][pod.metadata.key] = pod

    def remove_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._pods[pod.metadata.namespace].pop(pod.metadata.key, None)

    def note_pods(self, workload: Workload, reason: str, *, missing: int = 0) -> int:
        """Afterwards the Workload and the runtime know which pods are on nodes. Returns how many
        are not, with those that are `missing` because they were not made."""
        pods = self.pods_of(workload)
        placed = sum(bool(pod.spec.nodeName) for pod in pods)
        unplaced = len(pods) - placed + missing
        is_ready = not unplaced
        text = "True" if is_ready else "False"
        ready = Condition(names.PODS_READY, text, reason, "", rfc3339(self.now))
        self.put(with_conditions(workload, ready))
        uid = identity(workload)
        if self.is_elastic(workload):
            self.statuses[uid] = trains(placed, self.statuses.get(uid))
        return unplaced

    def is_elastic(self, workload: Workload) -> bool:
        owners = workload.metadata.ownerReferences
        keys: list[Key] = [(workload.metadata.namespace, owner.name) for owner in owners]
        jobs = (self.jobs[key] for key in keys if key in self.jobs)
        return any(allowed_sizes(job) for job in jobs if job.metadata.uid == identity(workload))


def with_conditions(workload: Workload, *conditions: Condition) -> Workload:
    """These, in place of those of the same types."""
    types = {condition.type for condition in conditions}
    others = (entry for entry in workload.status.conditions if entry.type not in types)
    status = replace(workload.status, conditions=(*others, *conditions))
    return replace(workload, status=status)


# --- runtimes -------------------------------------------------------------------------------------
def trains(pods: int, before: Status | None = None) -> Status:
    """What a runtime reports that trains with so many pods, as it was asked to."""
    return replace(before or Status(), state=State.TRAINING, size=pods, wanted=pods)


def assume_runtimes(objects: RawObjects) -> RawObjects:
    """Where no runtime could be asked, every elastic Job that has all its pods trains on them."""
    training = {
        job.metadata.uid: trains(job.spec.parallelism)
        for job in objects.jobs
        if allowed_sizes(job) and 0 < job.spec.parallelism <= job.status.ready
    }
    return replace(objects, statuses=training | dict(objects.statuses))
