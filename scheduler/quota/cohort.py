"""PURE. Kueue's arithmetic for the ClusterQueues of one flat Cohort: what is available, and which
queue borrows (Kueue: pkg/cache/scheduler/resource_node.go)."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from cede.api.kueue import ResourceGroup as KueueResourceGroup
from cede.api.private_quota import PrivateQuota
from cede.api.resources import FlavorResource, Quota

STRICT_FIFO = "StrictFIFO"
BEST_EFFORT_FIFO = "BestEffortFIFO"
"""Kueue's queueing strategies. Under StrictFIFO, released capacity waits for the first Workload of
the queue; otherwise any Workload that fits may take it."""


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """The quota of one ClusterQueue for one (flavor, resource)."""

    nominal: int = 0
    # None: no limit
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    @property
    def local(self) -> int:
        """The part of the nominal quota that is never lent."""
        return 0 if self.lending_limit is None else max(0, self.nominal - self.lending_limit)


NO_QUOTA = ResourceQuota()


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that a Workload gets from one flavor, and the flavors in order of preference."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue."""

    name: str
    cohort: str = ""
    quotas: Mapping[FlavorResource, ResourceQuota] = field(default_factory=dict)
    usage: Quota = field(default_factory=Counter)
    strategy: str = BEST_EFFORT_FIFO
    # True if Kueue uses the spec as it is now
    is_observed: bool = True
    version: str = ""
    weight: float = 1.0
    # whether a job may take capacity from jobs of the same queue with lower priority
    preempts_own_jobs: bool = True
    # whether its team has used its hard budget: it borrows nothing new
    is_over_budget: bool = False
    # True if the quota_controller made it. Of other queues we only read the usage.
    managed: bool = True
    groups: tuple[ResourceGroup, ...] = ()
    # the resource groups as they are written now
    written: tuple[KueueResourceGroup, ...] = ()
    # what the quota was before it was changed for a moment; None if it is not changed now. The
    # other fields show the quota as it was.
    private: PrivateQuota | None = None

    def quota(self, key: FlavorResource) -> ResourceQuota:
        return self.quotas.get(key, NO_QUOTA)

    def owns(self, amounts: Quota) -> bool:
        """Whether the amounts are within the nominal quota."""
        return all(amount <= self.quota(key).nominal for key, amount in amounts.items())


CohortKey = tuple[str, FlavorResource]

Share = tuple[bool, float]
"""A weighted share, in Kueue's order: whoever borrows with weight 0 comes after all others (Kueue:
CompareDRS in pkg/cache/scheduler/fair_sharing.go)."""
NO_SHARE: Share = (False, 0.0)


class QuotaArithmetic(ABC):
    """Kueue's sums for a frozen quota and for a working copy of one. They differ only in what is
    used."""

    __slots__ = ()

    queues: Mapping[str, Queue]

    @abstractmethod
    def used(self, name: str, key: FlavorResource) -> int:
        """What the queue uses."""

    @abstractmethod
    def lendable(self, cohort: str, key: FlavorResource) -> int:
        """What the members of the Cohort lend together, with what it owns itself."""

    @abstractmethod
    def lendable_of_all(self, cohort: str, resource: str) -> int:
        """The same for all flavors of a resource together."""

    @abstractmethod
    def lent(self, cohort: str, key: FlavorResource) -> int:
        """What the members use beyond their local quota."""

    def available(self, name: str, key: FlavorResource) -> int:
        """How much more the queue may use now. Below zero if more is in use than exists."""
        queue = self.queues[name]
        quota = queue.quota(key)
        used = self.used(name, key)
        exists = self._existing(queue, quota, used, key)
        if not queue.cohort or quota.borrowing_limit is None:
            return exists
        return min(exists, quota.nominal + quota.borrowing_limit - used)

    def excess(self, name: str, key: FlavorResource) -> int:
        """How much more is in use than exists, of what the queue could give back. A borrowing limit
        does not count: what a team borrowed before its limit was lowered does exist."""
        queue = self.queues[name]
        return max(0, -self._existing(queue, queue.quota(key), self.used(name, key), key))

    def _existing(self, queue: Queue, quota: ResourceQuota, used: int, key: FlavorResource) -> int:
        """How much more there is for the queue, whatever it may borrow."""
        if not queue.cohort:
            return quota.nominal - used
        free = self.lendable(queue.cohort, key) - self.lent(queue.cohort, key)
        return max(0, quota.local - used) + free

    def potential(self, name: str, key: FlavorResource) -> int:
        """How much the queue could use if no other queue used anything."""
        queue = self.queues[name]
        quota = queue.quota(key)
        if not queue.cohort:
            return quota.nominal
        most = quota.local + self.lendable(queue.cohort, key)
        if quota.borrowing_limit is None:
            return most
        return min(most, quota.nominal + quota.borrowing_limit)

    def fits(self, name: str, request: Quota) -> bool:
        return all(amount <= self.available(name, key) for key, amount in request.items() if amount)

    def missing(self, name: str, request: Quota) -> Quota:
        """What must be released before the request fits."""
        lacks = {key: amount - self.available(name, key) for key, amount in request.items()}
        return Counter({key: lack for key, lack in lacks.items() if lack > 0})

    def borrows(self, name: str, keys: Iterable[FlavorResource]) -> bool:
        """Whether the queue uses more than its nominal quota of any of these resources."""
        queue = self.queues[name]
        return any(self.used(name, key) > queue.quota(key).nominal for key in keys)

    def owns_with(self, name: str, request: Quota) -> bool:
        """Whether usage and request together are within the nominal quota, for the resources of
        the request."""
        queue = self.queues[name]
        return all(
            self.used(name, key) + amount <= queue.quota(key).nominal
            for key, amount in request.items()
        )

    def share(self, name: str) -> Share:
        """The largest part of a lendable resource that the queue borrows, by its weight (Kueue:
        dominantResourceShare). Kueue's fair sharing gives to the smallest share first."""
        queue = self.queues[name]
        if not queue.cohort:
            return NO_SHARE
        borrowed = Counter[str]()
        for key, quota in queue.quotas.items():
            beyond = self.used(name, key) - quota.nominal
            if beyond > 0:
                borrowed[key[1]] += beyond
        largest = 0.0
        for resource, amount in borrowed.items():
            if lendable := self.lendable_of_all(queue.cohort, resource):
                largest = max(largest, amount / lendable)
        if not largest:
            return NO_SHARE
        return (False, largest / queue.weight) if queue.weight else (True, largest)


@dataclass(frozen=True, slots=True)
class CohortQuota(QuotaArithmetic):
    """All ClusterQueues, and the quota that the Cohort itself owns."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    cohort_nominal: Quota = field(default_factory=Counter)
    # filled when they are first asked for; by (queue, flavor and resource):
    _available: dict[tuple[str, FlavorResource], int] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    # sums over the members of a Cohort
    _lendable_sums: dict[CohortKey, int] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    _lent_sums: dict[CohortKey, int] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )
    # by (cohort, resource)
    _resource_sums: dict[tuple[str, str], int] = field(
        init=False, default_factory=dict, compare=False, repr=False
    )

    def used(self, name: str, key: FlavorResource) -> int:
        return self.queues[name].usage[key]

    def available(self, name: str, key: FlavorResource) -> int:
        """It is asked for thousands of times in a plan."""
        available = self._available.get((name, key))
        if available is None:
            available = QuotaArithmetic.available(self, name, key)
            self._available[name, key] = available
        return available

    def lendable(self, cohort: str, key: FlavorResource) -> int:
        if (cohort, key) not in self._lendable_sums:
            quotas = [queue.quota(key) for queue in self._members(cohort)]
            own = sum(quota.nominal - quota.local for quota in quotas)
            self._lendable_sums[cohort, key] = self.cohort_nominal[key] + own
        return self._lendable_sums[cohort, key]

    def lendable_of_all(self, cohort: str, resource: str) -> int:
        if (cohort, resource) not in self._resource_sums:
            keys = {key for queue in self._members(cohort) for key in queue.quotas}
            keys |= self.cohort_nominal.keys()
            self._resource_sums[cohort, resource] = sum(
                self.lendable(cohort, key) for key in keys if key[1] == resource
            )
        return self._resource_sums[cohort, resource]

    def lent(self, cohort: str, key: FlavorResource) -> int:
        if (cohort, key) not in self._lent_sums:
            self._lent_sums[cohort, key] = sum(
                max(0, queue.usage[key] - queue.quota(key).local) for queue in self._members(cohort)
            )
        return self._lent_sums[cohort, key]

    def _members(self, cohort: str) -> Iterator[Queue]:
        return (queue for queue in self.queues.values() if queue.cohort == cohort)
