"""PURE. A copy of the quota that a trial changes in place: no queue is copied, no sum is counted
twice."""

from collections import Counter
from dataclasses import replace

from cede.api.resources import FlavorResource, Quota
from scheduler.quota.cohort import CohortKey, CohortQuota, QuotaArithmetic, Share


class WorkingQuota(QuotaArithmetic):
    """The usage of every queue, which `add` and `remove` change. Nominal quotas stay."""

    __slots__ = ("_lent_more", "_quota", "_usage", "queues")

    def __init__(self, quota: CohortQuota) -> None:
        self.queues = quota.queues
        self._quota = quota
        # of the queues that changed
        self._usage: dict[str, Quota] = {}
        # how much more their members use beyond their local quota than in the beginning
        self._lent_more = Counter[CohortKey]()

    def add(self, name: str, amounts: Quota) -> None:
        """The queue uses these amounts more."""
        self._change(name, amounts, 1)

    def remove(self, name: str, amounts: Quota) -> None:
        """The queue uses these amounts less."""
        self._change(name, amounts, -1)

    def frozen(self) -> CohortQuota:
        """The quota as it is now."""
        if not self._usage:
            return self._quota
        changed = {
            name: replace(self.queues[name], usage=Counter(usage))
            for name, usage in self._usage.items()
        }
        return replace(self._quota, queues={**self.queues, **changed})

    def used(self, name: str, key: FlavorResource) -> int:
        usage = self._usage.get(name)
        return self.queues[name].usage[key] if usage is None else usage[key]

    def available(self, name: str, key: FlavorResource) -> int:
        if not self._usage:
            return self._quota.available(name, key)
        return super().available(name, key)

    def share_with(self, name: str, request: Quota) -> Share:
        """The share of the queue if it used the request as well."""
        self.add(name, request)
        share = self.share(name)
        self.remove(name, request)
        return share

    def _change(self, name: str, amounts: Quota, sign: int) -> None:
        queue = self.queues[name]
        if name not in self._usage:
            self._usage[name] = Counter(queue.usage)
        usage = self._usage[name]
        for key, amount in amounts.items():
            local = queue.quota(key).local
            before = max(0, usage[key] - local)
            usage[key] += sign * amount
            self._lent_more[queue.cohort, key] += max(0, usage[key] - local) - before

    def lendable(self, cohort: str, key: FlavorResource) -> int:
        return self._quota.lendable(cohort, key)

    def lendable_of_all(self, cohort: str, resource: str) -> int:
        return self._quota.lendable_of_all(cohort, resource)

    def lent(self, cohort: str, key: FlavorResource) -> int:
        return self._quota.lent(cohort, key) + self._lent_more[cohort, key]
