"""PURE. The objects of the cluster that a report needs, and who leads by its leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.job_progress import Progress
from cede.api.kueue import ClusterQueue, Cohort, Job, Lease, LocalQueue, Workload
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    POLICIES,
    Kind,
    unix,
)
from cede.api.pod_state import Event, ObservedPod
from cede.api.policy import ClusterPolicy

COMPONENT_BY_LEASE = {
    names.SCHEDULER_LEASE: names.SCHEDULER,
    names.QUOTA_CONTROLLER_LEASE: names.QUOTA_CONTROLLER,
}
DEFAULT_LEASE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    availableReplicas: int = 0


@dataclass(frozen=True, slots=True)
class Deployment:
    """Only the numbers of its pods."""

    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


@dataclass(frozen=True)
class Snapshot:
    """What the command has read.

    `leases` has no entry for a lease that the user may not read, and None for one that does not
    exist. `deployments` has those that could be read, and `unreadable` a sentence for each object
    that this version cannot read. `incomplete` are the plurals of the kinds of which not all
    objects were read. `cede status` reads the first part only, and `cede jobs` no pods.
    """

    policy: ClusterPolicy | None = None
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    queues: Sequence[ClusterQueue] = ()
    leases: Mapping[str, Lease | None] = field(default_factory=dict)
    unreadable: Sequence[str] = ()
    incomplete: frozenset[str] = frozenset()
    # --- what surrounds a job
    workloads: Sequence[Workload] = ()
    local_queues: Sequence[LocalQueue] = ()
    # how far elastic jobs are, by namespace
    progress: Mapping[str, Progress] = field(default_factory=dict)
    cohorts: Sequence[Cohort] = ()
    job: Job | None = None
    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    # the WorkloadPriorityClasses; None: not read
    priority_classes: frozenset[str] | None = None
    # of the job that is explained; None: not read
    pods: Sequence[ObservedPod] | None = None
    # why it has too few pods, or what the scheduler has recorded about its wait
    events: Sequence[Event] = ()
    # what only a scheduler knows: uids of Workloads for which more jobs would have to give than one
    # Cession holds
    oversized: frozenset[str] = frozenset()

    def knows(self, kind: Kind) -> bool:
        """Whether all objects of this kind were read. Without that, nothing follows from one that
        is not there."""
        return kind.plural not in self.incomplete


NOTHING_READ = Snapshot(
    incomplete=frozenset(
        kind.plural
        for kind in (POLICIES, ALLOCATIONS, CESSIONS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES)
    )
)


def leader(snapshot: Snapshot, now: float) -> str:
    """The identity of the leading scheduler; empty when none leads.

    For a user who may not read the lease, it is the one in the policy's status.
    """
    if names.SCHEDULER_LEASE not in snapshot.leases:
        return snapshot.policy.status.leader if snapshot.policy else ""
    lease = snapshot.leases[names.SCHEDULER_LEASE]
    if lease is None or not is_current(lease, now):
        return ""
    return lease.spec.holderIdentity or ""


def leads(snapshot: Snapshot, now: float) -> bool | None:
    """Whether a scheduler leads; None if that cannot be known."""
    if names.SCHEDULER_LEASE not in snapshot.leases and snapshot.policy is None:
        return None
    return bool(leader(snapshot, now))


def is_current(lease: Lease, now: float) -> bool:
    """Whether somebody holds the lease.

    It counts for twice its duration, because the clock of this machine may be off.
    """
    valid_s = 2 * (lease.spec.leaseDurationSeconds or DEFAULT_LEASE_SECONDS)
    return bool(lease.spec.holderIdentity) and now - unix(lease.spec.renewTime) < valid_s
