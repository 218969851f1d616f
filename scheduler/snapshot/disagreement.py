"""PURE. For which quota the snapshot contradicts itself, or Kueue's own count.

The caches of Workloads and ClusterQueues are of different age, and Kueue frees what an evicted job
has before everyone sees it. Nobody is stopped for capacity that may be free already.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from cede.api.kueue import ClusterQueue
from cede.api.resources import FlavorResource, Quota, amount
from scheduler.quota.cohort import CohortQuota
from scheduler.snapshot.workloads import AdmittedWorkload

DISAGREEMENT_LIMIT_S = 30.0
"""A count that still differs after this time is believed: then Kueue does not write its own count,
or does not count as we do. Kueue follows within a second (clusterqueue_controller.go)."""

Count = tuple[str, FlavorResource]
"""A ClusterQueue, and what is counted in it."""


def find_disagreements(
    queues: Iterable[ClusterQueue], quota: CohortQuota, admitted: Sequence[AdmittedWorkload]
) -> frozenset[Count]:
    """The counts that are not to be trusted.

    1. Kueue counts less than its Workloads have: what they had is free already.
    2. More is in use than there is while Kueue evicts a job that uses it.
    """
    # what Kueue should count beyond the usage: it follows a shrink a moment later
    beyond: dict[str, Quota] = defaultdict(Counter)
    for job in admitted:
        if job.counted is not job.usage:
            beyond[job.queue].update(job.counted)
            beyond[job.queue].subtract(job.usage)
    differing = {
        (queue.metadata.name, key)
        for queue in queues
        if queue.metadata.name in quota.queues
        for key, total in _kueue_counts(queue)
        if total < quota.used(queue.metadata.name, key) + beyond[queue.metadata.name][key]
    }
    overused = {
        (job.queue, key)
        for job in admitted
        if job.is_evicting
        for key, used in job.usage.items()
        if used and quota.excess(job.queue, key)
    }
    return frozenset(differing | overused)


def _kueue_counts(queue: ClusterQueue) -> Iterator[tuple[FlavorResource, int]]:
    """None for a queue that Kueue has not counted yet."""
    for flavor in queue.status.flavorsReservation:
        for resource in flavor.resources:
            yield (flavor.name, resource.name), amount(resource.name, resource.total)


def distrusted(
    differing: Collection[Count], without: Collection[Count]
) -> frozenset[FlavorResource]:
    """What a disagreement concerns, without counts that have been waited for long enough. A count
    of one queue concerns the whole Cohort: all share what is free."""
    return frozenset(key for queue, key in differing if (queue, key) not in without)


def believed(since: Mapping[Count, float], now: float) -> frozenset[Count]:
    """The counts that are waited for no longer."""
    return frozenset(count for count, start in since.items() if now - start >= DISAGREEMENT_LIMIT_S)
