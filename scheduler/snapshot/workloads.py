"""PURE. Kueue Workloads, with and without quota, and the jobs that own them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cede.api.objects import DEPLOYMENTS, LEADER_WORKER_SETS, Key, Kind
from cede.api.resources import Quota
from cede.api.save_request import SaveRequest
from cede.api.surplus import Base
from elastic_runtime.contract import Status
from scheduler.quota.pod_sets import PodSetRequest, describe_kind
from scheduler.snapshot.observations import Observed

ServerId = tuple[Kind, Key]
"""A Deployment or a LeaderWorkerSet."""


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """A Workload without quota."""

    key: Key
    uid: str
    queue: str
    priority: int
    # RFC 3339, as on the wire
    created: str
    job: Key = ("", "")
    job_uid: str = ""
    priority_class: str = ""
    # True if it is a scale-up slice of an admitted job
    is_scale_up: bool = False
    active: bool = True
    # the Cession that it was stopped for; empty if it was not stopped by us
    stopped_for: str = ""
    # why Kueue has taken its quota away, in Kueue's words; empty if it had none
    evicted: str = ""
    # of a scale-up slice, the pods that it adds
    pod_sets: tuple[PodSetRequest, ...] = ()
    # why Kueue would not try to admit it now; empty if it would
    ineligible: str = ""
    # Unix seconds by which Kueue orders Workloads of one priority
    queued_at: float = 0.0
    # RFC 3339: since when its queue is StrictFIFO for it, as far as it was requeued for that
    requeued_at: str = ""
    # True if Kueue has tried to admit it since its spec changed last
    is_tried: bool = False
    # equal for Workloads of one queue and priority that Kueue treats alike: they request the same,
    # on the same flavors, and are tried or not for the same reason; every scale-up is a kind of its
    # own
    kind: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        scale_up = self.uid if self.is_scale_up else ""
        requests = [describe_kind(pods) for pods in self.pod_sets]
        # a text, because its hash is computed only once
        kind = repr((self.queue, self.priority, scale_up, self.ineligible, requests))
        object.__setattr__(self, "kind", kind)

    @property
    def identity(self) -> str:
        """Of the job that it belongs to (cede/api/workload_identity.py)."""
        return self.job_uid or self.uid

    @property
    def growing_job(self) -> str:
        """The uid of the Job that grows with it; empty if it is no scale-up slice."""
        return self.job_uid if self.is_scale_up else ""

    @property
    def name(self) -> str:
        return self.job[1] or self.key[1]


class PendingWorkloads(tuple[PendingWorkload, ...]):
    """In Kueue's order. Thousands of Workloads are of a few kinds."""

    @cached_property
    def by_kind(self) -> Mapping[str, Sequence[PendingWorkload]]:
        """All of each kind, in the same order."""
        by_kind: dict[str, list[PendingWorkload]] = defaultdict(list)
        for workload in self:
            by_kind[workload.kind].append(workload)
        return by_kind

    @property
    def first_of_each_kind(self) -> Sequence[PendingWorkload]:
        """In the same order."""
        return [workloads[0] for workloads in self.by_kind.values()]

    @cached_property
    def scale_ups(self) -> Mapping[str, Sequence[PendingWorkload]]:
        """The scale-up slices, by the identity of the job that grows."""
        scale_ups: dict[str, list[PendingWorkload]] = defaultdict(list)
        for workload in self.first_of_each_kind:
            if workload.is_scale_up:
                scale_ups[workload.job_uid].append(workload)
        return dict(scale_ups)


@dataclass(frozen=True, slots=True)
class AdmittedWorkload:
    """A Workload with quota, and the Job that owns it."""

    key: Key
    uid: str
    queue: str
    priority: int
    # Unix seconds of the quota reservation; a scale-up is a new reservation
    reserved_since: float
    # what Kueue counts for it: nothing once it is inactive, although its pods may still save
    usage: Quota
    # pods that have quota
    size: int
    # what one pod uses; the mean if the Workload has several pod sets
    per_pod: Quota
    job: Key = ("", "")
    job_uid: str = ""
    job_version: str = ""
    # Unix seconds since when it runs, whatever its size was since
    started: float = 0.0
    parallelism: int = 0
    # True if its completions are not its number of pods, so that a resize leaves them as they are
    keeps_completions: bool = False
    ready_pods: int = 0
    # ascending; empty if the job is not elastic; 0 and all its pods if it drains
    allowed_sizes: tuple[int, ...] = ()
    desired_size: int = 0
    grace_s: float = 0.0
    # Unix seconds of the last shrink; 0.0 if there was none
    shrunk_at: float = 0.0
    # what Kueue counts now, before it follows a shrink that is written already
    counted: Quota = field(default_factory=Counter)
    # IP addresses of the running pods, in the order in which they are asked
    addresses: tuple[str, ...] = ()
    # None if the runtime did not answer lately
    runtime: Status | None = None
    active: bool = True
    # the Cession that it was stopped for; empty if it was not stopped by us
    stopped_for: str = ""
    # True if Kueue evicts it: its quota comes free without anybody's doing
    is_evicting: bool = False
    # True once Kueue evicts it, whether or not it is active
    is_evicted: bool = False
    # by node: what its pods there request together
    requested_per_node: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    # the node of each index, as far as it has one
    node_of_index: Mapping[int, str] = field(default_factory=dict)
    # Unix seconds since when not all of its pods are ready; 0.0 if they are
    unready_since: float = 0.0
    # True if they all were ready before
    is_recovering: bool = False
    # ascending indexes of the pods of its size that are not ready; empty if it is not elastic
    missing_pods: tuple[int, ...] = ()
    # pods that had quota and have ended, as Kueue counts them (reclaimablePods)
    ended_pods: int = 0
    # completion indexes of its pods that have succeeded; empty for other kinds
    completed: frozenset[int] = frozenset()
    # how many of its pods find no room on any node
    unplaced_pods: int = 0
    # how many of its pods its Job has not created
    absent_pods: int = 0
    # by the kubelet's reason: how many of its pods have a container that cannot start
    failing_pods: Mapping[str, int] = field(default_factory=dict)
    # True if it does not come back by itself after it was stopped
    stays_stopped: bool = False
    # of a pod of a Deployment: the names of its Deployment and of its ReplicaSet
    deployment: str = ""
    replica_set: str = ""
    # of a group of a LeaderWorkerSet: the name of that, and which of its groups this is
    leader_worker_set: str = ""
    group_index: int = 0
    # True if all of its pods on nodes are being deleted
    is_ending: bool = False
    # True for a pod or group of a server that may end while its server has one replica less
    drains: bool = False
    # of a surplus: what it belongs to
    base: Base | None = None
    # what its user wants saved now, and what became of that
    save: SaveRequest | None = None

    @property
    def identity(self) -> str:
        """Of the job that it belongs to (cede/api/workload_identity.py)."""
        return self.job_uid or self.uid

    @property
    def name(self) -> str:
        return self.job[1] or self.key[1]

    @property
    def server(self) -> ServerId | None:
        """What may lose it as one of its replicas."""
        if self.leader_worker_set:
            return LEADER_WORKER_SETS, (self.key[0], self.leader_worker_set)
        return (DEPLOYMENTS, (self.key[0], self.deployment)) if self.deployment else None

    @property
    def smallest_size(self) -> int:
        return self.allowed_sizes[0] if self.allowed_sizes else self.size

    @property
    def sizes_now(self) -> tuple[int, ...]:
        """Those that it may be given now: none once pods of it have ended. A resize removes the
        pods of the highest indexes, and those that have ended may be others."""
        return () if self.ended_pods else self.allowed_sizes

    @property
    def is_growing(self) -> bool:
        """Whether its Job has more pods than quota, so that a scale-up slice is pending."""
        return bool(self.allowed_sizes) and self.pods_left > self.size

    @property
    def pods_left(self) -> int:
        """Those of its Job without those that have ended, whose quota is free again."""
        return self.parallelism - self.ended_pods

    @property
    def granted(self) -> int:
        """How many pods its Job may have: with quota, or ended since they had it."""
        return self.size + self.ended_pods

    @property
    def can_be_set_back(self) -> bool:
        """Whether a scale-up of it can be withdrawn. An object of another kind than Job has no
        version here, and no Job has less than one pod afterwards."""
        return bool(self.job_version) and 0 < self.granted < self.parallelism

    @property
    def is_elastic_job(self) -> bool:
        """Whether it has a runtime, or should have one, that can be asked to shrink."""
        return bool(self.allowed_sizes) and not self.drains

    def has_ceded(self, size: int) -> bool:
        """Whether its runtime was asked for this size and has ceded."""
        runtime = self.runtime
        return runtime is not None and runtime.wanted == size and runtime.ceded(size)

    def quota_for(self, pods: int) -> Quota:
        """What this number of its pods uses."""
        return Counter({key: amount * pods for key, amount in self.per_pod.items()})
