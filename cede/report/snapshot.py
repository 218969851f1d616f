"""PURE. The objects of the cluster that a report needs, and who leads by its leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, Job, Lease, LocalQueue, Workload
from cede.api.objects import unix
from cede.api.policy import ClusterPolicy

COMPONENT_BY_LEASE = {
    names.SCHEDULER_LEASE: names.SCHEDULER,
    names.QUOTA_CONTROLLER_LEASE: names.QUOTA_CONTROLLER,
}
DEFAULT_LEASE_SECONDS = 15


@dataclass(frozen=True)
class Snapshot:
    """What the command has read.

    `leases` has no entry for a lease that the user may not read, and None for one that does not
    exist. `unreadable` has a sentence for each object that this version cannot read. The last three
    fields are read for `cede explain` only.
    """

    policy: ClusterPolicy | None = None
    allocations: Sequence[ComputeAllocation] = ()
    cessions: Sequence[Cession] = ()
    queues: Sequence[ClusterQueue] = ()
    leases: Mapping[str, Lease | None] = field(default_factory=dict)
    unreadable: Sequence[str] = ()
    workloads: Sequence[Workload] = ()
    local_queues: Sequence[LocalQueue] = ()
    job: Job | None = None


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


def is_current(lease: Lease, now: float) -> bool:
    """Whether somebody holds the lease.

    It counts for twice its duration, because the clock of this machine may be off.
    """
    valid_s = 2 * (lease.spec.leaseDurationSeconds or DEFAULT_LEASE_SECONDS)
    return bool(lease.spec.holderIdentity) and now - unix(lease.spec.renewTime) < valid_s
