"""The quota of a small Kueue, for one resource on one flavor."""

from collections import Counter
from collections.abc import Iterable

from cede.api.objects import Json


class Quota:
    """What ClusterQueues may use, and what they use now (Kueue:
    pkg/cache/scheduler/resource_node.go)."""

    def __init__(self, queues: Iterable[Json]) -> None:
        self.used = Counter[str]()
        self.nominal = dict[str, int]()
        # what a queue does not lend
        self._local = dict[str, int]()
        self._cohort = dict[str, str]()
        for queue in queues:
            name = queue["metadata"]["name"]
            nominal, lent = _amounts(queue)
            self.nominal[name] = nominal
            self._local[name] = nominal - lent
            self._cohort[name] = queue["spec"].get("cohortName", "")

    def available(self, name: str) -> int:
        local = self._local[name]
        used = self.used[name]
        cohort = self._cohort[name]
        if not cohort:
            return self.nominal[name] - used
        members = [member for member, other in self._cohort.items() if other == cohort]
        lendable = sum(self.nominal[member] - self._local[member] for member in members)
        lent = sum(max(0, self.used[member] - self._local[member]) for member in members)
        return max(0, local - used) + lendable - lent

    def reserve(self, name: str, amount: int) -> None:
        """Kueue keeps capacity for a head within its queue's nominal quota, and no more than that
        (pkg/scheduler/scheduler.go, quotaResourcesToReserve)."""
        if amount <= self.nominal[name]:
            self.used[name] += max(0, min(amount, self.nominal[name] - self.used[name]))


def _amounts(queue: Json) -> tuple[int, int]:
    """The nominal quota, and how much of it is lent."""
    groups = queue["spec"].get("resourceGroups")
    if not groups:
        return 0, 0
    resource = groups[0]["flavors"][0]["resources"][0]
    nominal = int(resource["nominalQuota"])
    return nominal, int(resource.get("lendingLimit", nominal))
