"""PURE. How Kueue assigns flavors to the pod sets of a Workload (pkg/scheduler/flavorassigner)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product

from cede.api.resources import Quota, Resources
from scheduler.quota.cohort import Queue, QuotaArithmetic, ResourceGroup
from scheduler.quota.pod_sets import PodSetRequest

MAX_ASSIGNMENTS = 64
"""It bounds the work for a Workload of many pod sets in a queue of many flavors."""
PODS = "pods"
"""The resource by which Kueue counts pods, where a queue covers it."""


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


def assign(pod_sets: Sequence[PodSetRequest], name: str, quota: QuotaArithmetic) -> Quota | None:
    """What Kueue would give the pod sets now, in the queue of this name; None if they do not fit.

    One pod set after the other gets the first flavor that fits next to those before; none is moved
    to make room for the next (Kueue: flavorassigner.go, assignFlavors and findFlavorForPodSets).
    """
    queue = quota.queues[name]
    usage: Quota = Counter()
    for pod_set in pod_sets:
        requested = _requested(pod_set, queue)
        if not _covers(queue, requested):
            return None
        for group in _groups(queue, requested):
            parts = (_on_flavor(requested, group, flavor) for flavor in _flavors(pod_set, group))
            part = next((part for part in parts if _fits_beside(usage, part, name, quota)), None)
            if part is None:
                return None
            usage.update(part)
    return usage


def _fits_beside(usage: Quota, part: Quota, name: str, quota: QuotaArithmetic) -> bool:
    return quota.fits(name, Counter({key: usage[key] + amount for key, amount in part.items()}))


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
