"""Kueue's arithmetic for ClusterQueues in one flat Cohort: what is available, who borrows
(pkg/cache/scheduler/resource_node.go)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cede.api.resources import FlavorResource, Quota


@dataclass(frozen=True, slots=True)
class Limit:
    """Quota of one queue for one (flavor, resource)."""

    nominal: int = 0
    # None: no limit
    borrowing: int | None = None
    lending: int | None = None

    @property
    def local(self) -> int:
        """What is never lent."""
        return 0 if self.lending is None else max(0, self.nominal - self.lending)


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    cohort: str = ""
    limits: Mapping[FlavorResource, Limit] = field(default_factory=dict)
    usage: Quota = field(default_factory=Counter)
    strategy: str = "BestEffortFIFO"
    version: str = ""
    weight: float = 1.0
    # its important jobs may take from its less important ones
    preempts_own: bool = True
    # made by the quota_controller; of others we read the use and touch nothing
    ours: bool = True
    # by group: (covered resources, flavors in order)
    flavors: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()

    def owns(self, amounts: Quota, of: Iterable[FlavorResource] | None = None) -> bool:
        """Whether these amounts (of these keys only) are within its own quota."""
        return all(
            amounts[key] <= self.limits.get(key, Limit()).nominal
            for key in (amounts if of is None else of)
        )

    def borrows(self, need: Quota) -> bool:
        """Whether it uses more than its own of anything in `need`."""
        return any(self.usage[key] > self.limits.get(key, Limit()).nominal for key in need)


@dataclass(frozen=True, slots=True)
class Tree:
    """All queues, and what the Cohort itself owns."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    own: Quota = field(default_factory=Counter)

    def available(self, name: str, key: FlavorResource) -> int:
        """How much more the queue may use now; below zero where more is used than there is."""
        queue = self.queues[name]
        limit = queue.limits.get(key, Limit())
        used = queue.usage[key]
        if not queue.cohort:
            return limit.nominal - used
        parent = self._cohort_quota(queue.cohort, key) - self._cohort_usage(queue.cohort, key)
        if limit.borrowing is not None:
            parent = min(
                parent, limit.nominal - limit.local - max(0, used - limit.local) + limit.borrowing
            )
        return max(0, limit.local - used) + parent

    def potential(self, name: str, key: FlavorResource) -> int:
        """The most it could ever use."""
        queue = self.queues[name]
        limit = queue.limits.get(key, Limit())
        if not queue.cohort:
            return limit.nominal
        most = limit.local + self._cohort_quota(queue.cohort, key)
        return most if limit.borrowing is None else min(most, limit.nominal + limit.borrowing)

    def fits(self, name: str, request: Quota) -> bool:
        return all(amount <= self.available(name, key) for key, amount in request.items() if amount)

    def missing(self, name: str, request: Quota) -> Quota:
        return Counter(
            {
                key: lack
                for key, amount in request.items()
                if (lack := amount - self.available(name, key)) > 0
            }
        )

    def using(self, name: str, more: Quota, sign: int = 1) -> "Tree":
        """The tree with `more` used (or, with sign -1, freed) in a queue."""
        queue = self.queues[name]
        usage: Quota = Counter(queue.usage)
        for key, amount in more.items():
            usage[key] += sign * amount
        return replace(self, queues={**self.queues, name: replace(queue, usage=usage)})

    def share(self, name: str) -> float:
        """Borrowed part of what can be lent, over the weight: who has the least grows first
        (KEP-1714)."""
        queue = self.queues[name]
        worst = 0.0
        for resource in {r for _, r in queue.usage}:
            over = sum(
                max(0, used - queue.limits.get(k, Limit()).nominal)
                for k, used in queue.usage.items()
                if k[1] == resource
            )
            lendable = sum(
                self._cohort_quota(queue.cohort, k) for k in queue.limits if k[1] == resource
            )
            worst = max(worst, over / lendable if lendable else 0.0)
        return worst / queue.weight if queue.weight else (float("inf") if worst else 0.0)

    def _cohort_quota(self, cohort: str, key: FlavorResource) -> int:
        limits = (q.limits.get(key, Limit()) for q in self.queues.values() if q.cohort == cohort)
        return self.own[key] + sum(limit.nominal - limit.local for limit in limits)

    def _cohort_usage(self, cohort: str, key: FlavorResource) -> int:
        return sum(
            max(0, q.usage[key] - q.limits.get(key, Limit()).local)
            for q in self.queues.values()
            if q.cohort == cohort
        )
