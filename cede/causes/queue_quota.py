"""PURE. One resource of one flavor in a team's ClusterQueue: owned, used, borrowed, lent."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cede.api.kueue import ClusterQueue, ResourceQuota, Workload
from cede.api.objects import CLUSTER_QUEUES
from cede.api.resources import amount
from cede.api.workload_identity import owner
from cede.causes.facts import MAX_HOLDERS, Holder, Shortage, exact
from cede.causes.index import Index
from cede.causes.kueue_message import Lack


@dataclass(frozen=True)
class QueueQuota:
    """In Kueue's units (resources.py)."""

    team: str
    cohort: str
    nominal: int
    used: int
    # None: without a limit
    borrowing_limit: int | None
    lending_limit: int | None

    @property
    def borrowed(self) -> int:
        return max(0, self.used - self.nominal)

    @property
    def idle(self) -> int:
        return max(0, self.nominal - self.used)

    @property
    def never_lent(self) -> int:
        """The part of its own quota that the team keeps for itself."""
        if self.lending_limit is None:
            return 0
        return max(0, self.nominal - self.lending_limit)

    @property
    def kept(self) -> int:
        """What is idle, and may not be lent."""
        return max(0, self.never_lent - self.used)

    @property
    def shared_use(self) -> int:
        """What it uses of what all teams share."""
        return max(0, self.used - self.never_lent)


def queue_quota(queue: ClusterQueue, flavor: str, resource: str) -> QueueQuota | None:
    """None if the queue has no such quota, or one that is no quantity."""
    for group in queue.spec.resourceGroups:
        for flavors in group.flavors:
            for entry in flavors.resources:
                if (flavors.name, entry.name) == (flavor, resource):
                    return _quota(queue, flavor, entry)
    return None


def _quota(queue: ClusterQueue, flavor: str, entry: ResourceQuota) -> QueueQuota | None:
    try:
        return QueueQuota(
            team=queue.metadata.name,
            cohort=queue.spec.cohortName,
            nominal=amount(entry.name, entry.nominalQuota),
            used=_used(queue, flavor, entry.name),
            borrowing_limit=_limit(entry.name, entry.borrowingLimit),
            lending_limit=_limit(entry.name, entry.lendingLimit),
        )
    except ValueError:
        return None


def _limit(resource: str, limit: str | int | None) -> int | None:
    return None if limit is None else amount(resource, limit)


def _used(queue: ClusterQueue, flavor: str, resource: str) -> int:
    """Kueue counts a Workload from the reservation of its quota on."""
    for usage in queue.status.flavorsReservation:
        for entry in usage.resources:
            if (usage.name, entry.name) == (flavor, resource):
                return amount(resource, entry.total)
    return 0


def others_in_cohort(
    own: QueueQuota, flavor: str, resource: str, index: Index
) -> Sequence[QueueQuota]:
    """The same quota of the other queues that lend to and borrow from this one."""

    def compute() -> list[QueueQuota]:
        quotas = (queue_quota(queue, flavor, resource) for queue in index.queues.values())
        return [quota for quota in quotas if quota]

    quotas = index.once(("quotas", flavor, resource), compute)
    return [
        quota
        for quota in quotas
        if own.cohort and quota.cohort == own.cohort and quota.team != own.team
    ]


# --- who uses it ----------------------------------------------------------------------------------
def used_by(workload: Workload, flavor: str, resource: str) -> int:
    """What a Workload with quota uses of it."""
    admission = workload.status.admission
    total = 0
    for assignment in admission.podSetAssignments if admission else ():
        if assignment.flavors.get(resource) == flavor:
            total += _usage(resource, assignment.resourceUsage.get(resource, 0))
    return total


def _usage(resource: str, text: str | int) -> int:
    try:
        return amount(resource, text)
    except ValueError:
        return 0


def job_name(workload: Workload) -> str:
    """namespace/name of its job."""
    job = owner(workload)
    return f"{workload.metadata.namespace}/{job.name if job else workload.metadata.name}"


def job_holders(team: str, flavor: str, resource: str, rule: str, index: Index) -> Sequence[Holder]:
    """The jobs of the team that use most of it, the largest first."""

    def compute() -> list[Holder]:
        workloads = index.admitted.get(team, ())
        sizes = [(used_by(item, flavor, resource), job_name(item)) for item in workloads]
        users = sorted((size for size in sizes if size[0]), key=lambda size: (-size[0], size[1]))
        return [Holder(team, job, exact(resource, used), rule) for used, job in users[:MAX_HOLDERS]]

    return index.once(("holders", team, flavor, resource, rule), compute)


def team_holders(
    amounts: Iterable[tuple[QueueQuota, int]], resource: str, rule: str
) -> Iterator[Holder]:
    """The teams that have most of it, the largest first."""
    holding = [(used, quota.team) for quota, used in amounts if used]
    for used, team in sorted(holding, key=lambda entry: (-entry[0], entry[1]))[:MAX_HOLDERS]:
        yield Holder(team, "", exact(resource, used), rule)


def own_quota(queue_name: str, flavor: str, resource: str, index: Index) -> QueueQuota | None:
    """Of this kind; None if it cannot be read, or the queue has none."""
    if not index.snapshot.knows(CLUSTER_QUEUES):
        return None
    queue = index.queues.get(queue_name)
    return queue_quota(queue, flavor, resource) if queue else None


def describe_shortage(
    lack: Lack, asked: int, quota: QueueQuota | None, holders: Sequence[Holder]
) -> Shortage:
    """What a job that asks for `asked` lacks, and who has it."""
    resource = lack.resource
    limit = quota.borrowing_limit if quota else None
    return Shortage(
        resource,
        lack.flavor,
        asked=exact(resource, asked),
        free=exact(resource, max(0, asked - lack.missing)),
        missing=exact(resource, lack.missing),
        owned=exact(resource, quota.nominal) if quota else "",
        used=exact(resource, quota.used) if quota else "",
        may_borrow=None if limit is None else exact(resource, limit),
        holders=tuple(holders),
    )
