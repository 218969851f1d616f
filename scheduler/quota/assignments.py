"""PURE. How Kueue assigns flavors to the pod sets of a Workload (pkg/scheduler/flavorassigner)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice, product

from cede.api.resources import FlavorResource, Quota, Resources
from scheduler.quota.cohort import CohortQuota, Queue, ResourceGroup
from scheduler.quota.pod_sets import PodSetRequest

MAX_ASSIGNMENTS = 64
"""It bounds the work for a Workload of many pod sets in a queue of many flavors."""
PODS = "pods"
"""The resource by which Kueue counts pods, where a queue covers it."""


class Mode(IntEnum):
    """How Kueue could admit a Workload. A higher mode is better."""

    NO_FIT = 0
    # once others have released capacity
    PREEMPT = 1
    FIT = 2


@dataclass(frozen=True, slots=True)
class Assignment:
    """What Kueue would assign to a Workload now."""

    mode: Mode = Mode.NO_FIT
    usage: Quota = field(default_factory=Counter)


def assignments(pod_sets: Sequence[PodSetRequest], queue: Queue) -> Iterator[Quota]:
    """What the pod sets use on each choice of flavors, in the order in which Kueue tries them, at
    most MAX_ASSIGNMENTS. Empty if the queue does not cover a resource, or has no flavor on which
    one of the pod sets may run."""
    choices = list[tuple[Quota, ...]]()
    for pod_set in pod_sets:
        requested = _requested(pod_set, queue)
        if not _covers(queue, requested):
            return
        for group in _groups(queue, requested):
            choices.append(
                tuple(_on_flavor(requested, group, flavor) for flavor in _flavors(pod_set, group))
            )
    for choice in islice(product(*choices), MAX_ASSIGNMENTS):
        usage: Quota = Counter()
        for part in choice:
            usage.update(part)
        yield usage


def fits_somewhere(pod_sets: Sequence[PodSetRequest], name: str, quota: CohortQuota) -> bool:
    """Whether the pod sets fit now in the queue of this name, on any choice of flavors."""
    requests = assignments(pod_sets, quota.queues[name])
    return any(quota.fits(name, request) for request in requests)


def assign(pod_sets: Sequence[PodSetRequest], name: str, quota: CohortQuota) -> Assignment:
    """What Kueue would assign now, while its own preemption is off: one pod set after the other,
    each on the first flavor that fits next to those before.

    Kueue: flavorassigner.go, assignFlavors and findFlavorForPodSets.
    """
    queue = quota.queues[name]
    usage: Quota = Counter()
    worst = Mode.FIT
    for pod_set in pod_sets:
        requested = _requested(pod_set, queue)
        if not _covers(queue, requested):
            return Assignment()
        for group in _groups(queue, requested):
            mode, part = _best_flavor(pod_set, requested, group, usage, name, quota)
            if mode is Mode.NO_FIT:
                return Assignment()
            worst = min(worst, mode)
            usage.update(part)
    return Assignment(worst, usage)


def _best_flavor(
    pod_set: PodSetRequest,
    requested: Resources,
    group: ResourceGroup,
    usage: Quota,
    name: str,
    quota: CohortQuota,
) -> tuple[Mode, Quota]:
    """The first flavor that fits; else the one that borrows least, of those where capacity could
    be released. `usage` is what the pod sets before it use."""
    best = (Mode.NO_FIT, False)
    best_flavor = ""
    for flavor in _flavors(pod_set, group):
        worst = min(
            _mode((flavor, resource), requested[resource], usage, name, quota)
            for resource in group.resources
            if resource in requested
        )
        if worst[0] is Mode.FIT:
            return Mode.FIT, _on_flavor(requested, group, flavor)
        if worst[0] is not Mode.NO_FIT and worst > best:
            best = worst
            best_flavor = flavor
    return best[0], _on_flavor(requested, group, best_flavor)


def _mode(
    key: FlavorResource, amount: int, usage: Quota, name: str, quota: CohortQuota
) -> tuple[Mode, bool]:
    """The mode for one resource, and True if the queue does not borrow for it. A higher tuple is
    better.

    Kueue: flavorassigner.go, fitsResourceQuota and isPreferred.
    """
    queue = quota.queues[name]
    wanted = usage[key] + amount
    nominal = queue.quota(key).nominal
    is_own = not queue.cohort or queue.usage[key] + wanted <= nominal
    if wanted > quota.potential(name, key):
        return Mode.NO_FIT, is_own
    # a request for nothing fits also where more is in use than there is
    if wanted <= max(0, quota.available(name, key)):
        return Mode.FIT, is_own
    # nobody has to release anything for a request beyond the queue's own quota
    return (Mode.PREEMPT if wanted <= nominal else Mode.NO_FIT), is_own


def _requested(pod_set: PodSetRequest, queue: Queue) -> Resources:
    requested = pod_set.requested
    if any(PODS in group.resources for group in queue.groups):
        requested[PODS] = pod_set.count
    return requested


def _covers(queue: Queue, requested: Resources) -> bool:
    covered = {resource for group in queue.groups for resource in group.resources}
    return all(resource in covered for resource, amount in requested.items() if amount)


def _groups(queue: Queue, requested: Resources) -> Iterator[ResourceGroup]:
    """The groups of which the pod set requests something."""
    for group in queue.groups:
        if any(resource in requested for resource in group.resources):
            yield group


def _flavors(pod_set: PodSetRequest, group: ResourceGroup) -> Iterator[str]:
    return (flavor for flavor in group.flavors if flavor not in pod_set.unsuitable)


def _on_flavor(requested: Resources, group: ResourceGroup, flavor: str) -> Quota:
    return Counter(
        {
            (flavor, resource): requested[resource]
            for resource in group.resources
            if requested[resource]
        }
    )
