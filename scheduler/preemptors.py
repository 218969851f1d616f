"""Blocked Workloads → what each needs. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from cede.api.resources import Quota
from scheduler.cohort import Queue
from scheduler.snapshot import Snapshot, Waiting

# Workloads looked at in one queue: behind so many that cannot be helped nobody is in a hurry
TRIED = 8


@dataclass(frozen=True, slots=True)
class Claim:
    """A Workload that does not fit and could, if others gave back what Kueue's rules let it
    take."""

    by: Waiting
    request: Quota
    missing: Quota
    # with it its queue would be past its own quota: lower priority of its own queue must give way
    # first
    past_own: bool
    # the first of its queue: under StrictFIFO Kueue keeps for it what is freed
    reserved: bool = True


def claims(
    seen: Snapshot, busy: Collection[str] = (), barred: Collection[str] = ()
) -> Iterator[Claim]:
    """In Kueue's order who does not fit and may ask: reclaim of lent quota, or priority within the
    team.

    Left out are the queues in `busy`, for which a take-back runs, and the Workloads in `barred`, by
    uid. A request beyond its queue's own
    quota is no claim: Kueue could not reserve for it, and nobody owes it anything (seen on 0.19.2).
    A fair share between borrowers is
    not claimed yet.
    """
    done = set(busy)
    tried = Counter[str]()
    for waiting in seen.waiting:
        queue = seen.tree.queues[waiting.queue]
        if queue.name in done or not queue.ours or not waiting.active or waiting.replaces:
            continue
        requests = list(assignments(waiting, queue))
        if tried[queue.name] >= TRIED or any(
            seen.tree.fits(queue.name, request) for request in requests
        ):
            # Kueue admits it by itself, and then the queue looks different
            done.add(queue.name)
            continue
        if waiting.uid not in barred and (
            claim := _claim(seen, waiting, requests, first=not tried[queue.name])
        ):
            yield claim
        tried[queue.name] += 1


def _claim(
    seen: Snapshot, waiting: Waiting, requests: Iterable[Quota], first: bool
) -> Claim | None:
    queue = seen.tree.queues[waiting.queue]
    for request in requests:
        if queue.owns(request):
            past = not queue.owns(Counter(queue.usage) + request, of=request)
            return Claim(waiting, request, seen.tree.missing(queue.name, request), past, first)
    return None


def assignments(waiting: Waiting, queue: Queue) -> Iterator[Quota]:
    """The request on each choice of flavors, in the queue's order; none when it asks for something
    the queue does not cover."""
    asked = Counter[str]()
    for each, count in waiting.each:
        for resource, amount in each.items():
            asked[resource] += amount * count
    covered = {resource for resources, _ in queue.flavors for resource in resources}
    if any(amount and resource not in covered for resource, amount in asked.items()):
        return
    for choice in product(*(flavors for _, flavors in queue.flavors)):
        yield Counter(
            {
                (flavor, resource): asked[resource]
                for flavor, (resources, _) in zip(choice, queue.flavors, strict=True)
                for resource in resources
                if asked[resource]
            }
        )
