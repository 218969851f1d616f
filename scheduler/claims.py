"""Blocked Workloads → what each needs. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from cede.api.resources import Quota
from scheduler.quota import Limit, Queue
from scheduler.snapshot import Snapshot, Waiting


@dataclass(frozen=True, slots=True)
class Claim:
    """A Workload that does not fit and could, if others gave back what Kueue's rules let it take."""

    by: Waiting
    request: Quota
    missing: Quota
    own_only: bool  # it is past its queue's own quota: it may take from lower priority in its own queue only


def claims(seen: Snapshot) -> Iterator[Claim]:
    """For each queue in Kueue's order the head that does not fit: reclaim of lent quota, or priority within the team.

    A request beyond its queue's own quota is no claim: Kueue could not reserve for it, and nobody owes it anything (kueue-verified 0).
    A fair share between borrowers is not claimed yet.
    """
    looked = set[str]()
    for waiting in seen.waiting:
        if waiting.queue in looked or not waiting.active or waiting.replaces:
            continue
        looked.add(waiting.queue)
        queue = seen.tree.queues[waiting.queue]
        requests = list(assignments(waiting, queue))
        if any(seen.tree.fits(queue.name, request) for request in requests):
            continue  # Kueue admits it by itself
        for request in requests:
            own = {key: queue.limits.get(key, Limit()).nominal for key in request}
            if all(amount <= own[key] for key, amount in request.items()):
                past = any(queue.usage[key] + amount > own[key] for key, amount in request.items())
                yield Claim(waiting, request, seen.tree.missing(queue.name, request), past)
                break


def assignments(waiting: Waiting, queue: Queue) -> Iterator[Quota]:
    """The request on each choice of flavors, in the queue's order; none when it asks for something the queue does not cover."""
    asked = Counter[str]()
    for each, count in waiting.each:
        for resource, amount in each.items():
            asked[resource] += amount * count
    covered = {resource for resources, _ in queue.flavors for resource in resources}
    if any(amount and resource not in covered for resource, amount in asked.items()):
        return
    for choice in product(*(flavors for _, flavors in queue.flavors)):
        yield Counter({
            (flavor, resource): asked[resource]
            for flavor, (resources, _) in zip(choice, queue.flavors, strict=True)
            for resource in resources
            if asked[resource]
        })  # fmt: skip
