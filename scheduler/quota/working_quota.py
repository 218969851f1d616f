"""PURE. A copy of the quota that a trial changes in place: no queue is copied, no sum is counted
twice."""

from collections import Counter
from collections.abc import Iterable

from cede.api.resources import FlavorResource, Quota
from scheduler.quota.cohort import CohortQuota, Queue

Share = tuple[bool, float]
"""A weighted share, in Kueue's order: whoever borrows with weight 0 comes after all others (Kueue:
CompareDRS in pkg/cache/scheduler/fair_sharing.go)."""
NO_SHARE: Share = (False, 0.0)


class WorkingQuota:
    """The usage of every queue, which `add` and `remove` change. Nominal quotas stay."""

    def __init__(self, quota: CohortQuota) -> None:
        self.queues = quota.queues
        self._cohort_nominal = quota.cohort_nominal
        # copied when a queue first changes
        self._usage: dict[str, Quota] = {}
        # by (cohort, key): what its members lend, and use beyond their local quota
        self._lendable: dict[tuple[str, FlavorResource], int] = {}
        self._lent: dict[tuple[str, FlavorResource], int] = {}
        # by (cohort, resource)
        self._lendable_of: dict[tuple[str, str], int] = {}
        self._members: dict[str, list[Queue]] = {}
        for queue in quota.queues.values():
            self._members.setdefault(queue.cohort, []).append(queue)

    def add(self, name: str, amounts: Quota) -> None:
        """The queue uses these amounts more."""
        self._change(name, amounts, 1)

    def remove(self, name: str, amounts: Quota) -> None:
        """The queue uses these amounts less."""
        self._change(name, amounts, -1)

    def used(self, name: str, key: FlavorResource) -> int:
        usage = self._usage.get(name)
        return self.queues[name].usage[key] if usage is None else usage[key]

    def available(self, name: str, key: FlavorResource) -> int:
        """How much more the queue may use now. Below zero if more is in use than exists."""
        queue = self.queues[name]
        quota = queue.quota(key)
        used = self.used(name, key)
        if not queue.cohort:
            return quota.nominal - used
        free = self._cohort_lendable(queue.cohort, key) - self._cohort_lent(queue.cohort, key)
        if quota.borrowing_limit is not None:
            most = quota.nominal - quota.local + quota.borrowing_limit
            free = min(free, most - max(0, used - quota.local))
        return max(0, quota.local - used) + free

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
        dominantResourceShare)."""
        queue = self.queues[name]
        borrowed = Counter[str]()
        for key in queue.quotas:
            beyond = self.used(name, key) - queue.quota(key).nominal
            if beyond > 0:
                borrowed[key[1]] += beyond
        largest = 0.0
        for resource, amount in borrowed.items():
            if lendable := self._lendable_resource(queue.cohort, resource):
                largest = max(largest, amount / lendable)
        if not largest:
            return NO_SHARE
        return (False, largest / queue.weight) if queue.weight else (True, largest)

    def _change(self, name: str, amounts: Quota, sign: int) -> None:
        queue = self.queues[name]
        if name not in self._usage:
            self._usage[name] = Counter(queue.usage)
        usage = self._usage[name]
        for key, amount in amounts.items():
            local = queue.quota(key).local
            before = max(0, usage[key] - local)
            usage[key] += sign * amount
            if (queue.cohort, key) in self._lent:
                self._lent[queue.cohort, key] += max(0, usage[key] - local) - before

    def _cohort_lendable(self, cohort: str, key: FlavorResource) -> int:
        if (cohort, key) not in self._lendable:
            quotas = [queue.quota(key) for queue in self._members[cohort]]
            own = sum(quota.nominal - quota.local for quota in quotas)
            self._lendable[cohort, key] = self._cohort_nominal[key] + own
        return self._lendable[cohort, key]

    def _cohort_lent(self, cohort: str, key: FlavorResource) -> int:
        if (cohort, key) not in self._lent:
            self._lent[cohort, key] = sum(
                max(0, self.used(queue.name, key) - queue.quota(key).local)
                for queue in self._members[cohort]
            )
        return self._lent[cohort, key]

    def _lendable_resource(self, cohort: str, resource: str) -> int:
        """Of all flavors together."""
        if (cohort, resource) not in self._lendable_of:
            keys = {key for queue in self._members[cohort] for key in queue.quotas}
            keys |= self._cohort_nominal.keys()
            self._lendable_of[cohort, resource] = sum(
                self._cohort_lendable(cohort, key) for key in keys if key[1] == resource
            )
        return self._lendable_of[cohort, resource]
