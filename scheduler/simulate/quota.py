"""PURE. The quota of one flavor in a flat Cohort, as Kueue counts it; a copy can be tried on.

Kueue 0.19.2: pkg/cache/scheduler/resource_node.go.
"""

from collections.abc import Iterable, Mapping

from scheduler.simulate.objects import Queue


class Quota:
    """What each queue uses, and what is left for it. Queues without a Cohort share nothing."""

    def __init__(self, queues: Mapping[str, Queue], *, shares: bool, guarded: int = 0) -> None:
        # `guarded`: what guards use
        self.queues = queues
        self.shares = shares
        self.usage = {name: queue.usage for name, queue in queues.items()}
        self.lendable = sum(queue.quota.nominal - queue.local for queue in queues.values())
        self._lent = sum(self._of_cohort(name) for name in queues)
        self._guarded = guarded

    def add(self, name: str, accelerators: int) -> None:
        self._lent -= self._of_cohort(name)
        self.usage[name] += accelerators
        self._lent += self._of_cohort(name)

    def available(self, name: str) -> int:
        """How much more the queue may use now. Below zero if more is in use than exists."""
        queue = self.queues[name]
        used = self.usage[name]
        if not self.shares:
            return queue.quota.nominal - used
        rest = self.lendable - self._lent - self._guarded
        if queue.quota.borrowing_limit is not None:
            most = queue.quota.nominal - queue.local + queue.quota.borrowing_limit
            rest = min(rest, most - self._of_cohort(name))
        return max(0, queue.local - used) + rest

    def potential(self, name: str) -> int:
        """How much the queue could use if no other queue used anything."""
        queue = self.queues[name]
        if not self.shares:
            return queue.quota.nominal
        most = queue.local + self.lendable
        limit = queue.quota.borrowing_limit
        return most if limit is None else min(most, queue.quota.nominal + limit)

    def borrows(self, name: str, added: int = 0) -> bool:
        return self.usage[name] + added > self.queues[name].quota.nominal

    def share(self, name: str, added: int) -> float:
        """The dominant share with a request (KEP-1714)."""
        quota = self.queues[name].quota
        borrowed = max(0, self.usage[name] + added - quota.nominal)
        if not borrowed:
            return 0.0
        return borrowed / self.lendable / quota.weight if quota.weight else float("inf")

    def over(self) -> int:
        """How much more is in use than exists."""
        if self.shares:
            return max(0, self._lent - self.lendable)
        return max(self._excess(self.queues))

    def _excess(self, names: Iterable[str]) -> list[int]:
        return [max(0, self.usage[name] - self.queues[name].quota.nominal) for name in names]

    def _of_cohort(self, name: str) -> int:
        return max(0, self.usage[name] - self.queues[name].local)
