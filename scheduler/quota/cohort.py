"""PURE. Kueue's arithmetic for the ClusterQueues of one flat Cohort: what is available, and which
queue borrows (Kueue: pkg/cache/scheduler/resource_node.go)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

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
    # True if the quota_controller made it. Of other queues we only read the usage.
    managed: bool = True
    groups: tuple[ResourceGroup, ...] = ()
    # why Kueue admits nothing in it now; empty if it does
    inactive: str = ""

    def quota(self, key: FlavorResource) -> ResourceQuota:
        return self.quotas.get(key, NO_QUOTA)

    def owns(self, amounts: Quota) -> bool:
        """Whether the amounts are within the nominal quota."""
        return all(amount <= self.quota(key).nominal for key, amount in amounts.items())

    def owns_with(self, request: Quota) -> bool:
        """Whether usage and request together are within the nominal quota, for the resources of
        the request."""
        return all(
            self.usage[key] + amount <= self.quota(key).nominal for key, amount in request.items()
        )

    def borrows(self, keys: Iterable[FlavorResource]) -> bool:
        """Whether the queue uses more than its nominal quota of any of these resources."""
        return any(self.usage[key] > self.quota(key).nominal for key in keys)


CohortKey = tuple[str, FlavorResource]


@dataclass(frozen=True, slots=True)
class CohortQuota:
    """All ClusterQueues, and the quota that the Cohort itself owns."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    cohort_nominal: Quota = field(default_factory=Counter)
    # by (cohort, key), filled when they are first asked for: what the members lend together, and
    # what they use of it
    _lendable_sums: dict[CohortKey, int] = field(default_factory=dict, compare=False, repr=False)
    _lent_sums: dict[CohortKey, int] = field(default_factory=dict, compare=False, repr=False)

    def available(self, name: str, key: FlavorResource) -> int:
        """How much more the queue may use now. Below zero if more is in use than exists."""
        queue = self.queues[name]
        quota = queue.quota(key)
        used = queue.usage[key]
        if not queue.cohort:
            return quota.nominal - used
        lendable = self._lendable(queue.cohort, key) - self._lent(queue.cohort, key)
        if quota.borrowing_limit is not None:
            used_of_cohort = max(0, used - quota.local)
            most = quota.nominal - quota.local + quota.borrowing_limit
            lendable = min(lendable, most - used_of_cohort)
        return max(0, quota.local - used) + lendable

    def potential(self, name: str, key: FlavorResource) -> int:
        """How much the queue could use if no other queue used anything."""
        queue = self.queues[name]
        quota = queue.quota(key)
        if not queue.cohort:
            return quota.nominal
        most = quota.local + self._lendable(queue.cohort, key)
        if quota.borrowing_limit is None:
            return most
        return min(most, quota.nominal + quota.borrowing_limit)

    def fits(self, name: str, request: Quota) -> bool:
        return all(amount <= self.available(name, key) for key, amount in request.items() if amount)

    def missing(self, name: str, request: Quota) -> Quota:
        """What must be released before the request fits."""
        lacks = {key: amount - self.available(name, key) for key, amount in request.items()}
        return Counter({key: lack for key, lack in lacks.items() if lack > 0})

    def after_adding(self, name: str, amounts: Quota) -> "CohortQuota":
        """A copy in which the queue uses these amounts more."""
        return self._with_usage(name, amounts, 1)

    def after_removing(self, name: str, amounts: Quota) -> "CohortQuota":
        """A copy in which the queue uses these amounts less."""
        return self._with_usage(name, amounts, -1)

    def dominant_share(self, name: str) -> float:
        """The largest share of a lendable resource that the queue borrows, divided by its weight.

        Kueue's fair sharing gives to the queue with the smallest share first (KEP-1714).
        """
        queue = self.queues[name]
        share = max((self._share(queue, resource) for _, resource in queue.usage), default=0.0)
        if queue.weight:
            return share / queue.weight
        return float("inf") if share else 0.0

    def _share(self, queue: Queue, resource: str) -> float:
        borrowed = sum(
            max(0, used - queue.quota(key).nominal)
            for key, used in queue.usage.items()
            if key[1] == resource
        )
        keys = [key for key in queue.quotas if key[1] == resource]
        lendable = sum(self._lendable(queue.cohort, key) for key in keys)
        return borrowed / lendable if lendable else 0.0

    def _with_usage(self, name: str, amounts: Quota, sign: int) -> "CohortQuota":
        queue = self.queues[name]
        usage: Quota = Counter(queue.usage)
        lent_sums = dict(self._lent_sums)
        for key, amount in amounts.items():
            local = queue.quota(key).local
            before = max(0, usage[key] - local)
            usage[key] += sign * amount
            if (queue.cohort, key) in lent_sums:
                lent_sums[queue.cohort, key] += max(0, usage[key] - local) - before
        queues = {**self.queues, name: replace(queue, usage=usage)}
        return replace(self, queues=queues, _lent_sums=lent_sums)

    def _lendable(self, cohort: str, key: FlavorResource) -> int:
        if (cohort, key) not in self._lendable_sums:
            quotas = [queue.quota(key) for queue in self._members(cohort)]
            own = sum(quota.nominal - quota.local for quota in quotas)
            self._lendable_sums[cohort, key] = self.cohort_nominal[key] + own
        return self._lendable_sums[cohort, key]

    def _lent(self, cohort: str, key: FlavorResource) -> int:
        if (cohort, key) not in self._lent_sums:
            self._lent_sums[cohort, key] = sum(
                max(0, queue.usage[key] - queue.quota(key).local) for queue in self._members(cohort)
            )
        return self._lent_sums[cohort, key]

    def _members(self, cohort: str) -> Iterator[Queue]:
        return (queue for queue in self.queues.values() if queue.cohort == cohort)
