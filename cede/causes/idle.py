"""PURE. What is idle in the Cohort of a queue: at most so much could be borrowed."""

from cede.api.kueue import ResourceGroup
from cede.api.resources import FlavorResource, Quota, amount
from cede.causes.index import Index


def idle_in_cohort(queue_name: str, index: Index) -> Quota:
    """By flavor and resource: all quota minus all reservations, without regard to limits. So what
    a job may have is never more. Without the queue: nothing is known."""
    return index.once(("idle", queue_name), lambda: _idle_in_cohort(queue_name, index))


def _idle_in_cohort(queue_name: str, index: Index) -> Quota:
    own = index.queues.get(queue_name)
    if own is None:
        return Quota()
    name = own.spec.cohortName
    idle = Quota()
    for queue in index.queues.values():
        if queue is own or (name and queue.spec.cohortName == name):
            _add(idle, queue.spec.resourceGroups)
            for usage in queue.status.flavorsReservation:
                for entry in usage.resources:
                    _change(idle, (usage.name, entry.name), entry.total, -1)
    for cohort in index.snapshot.cohorts:
        if name and cohort.metadata.name == name:
            _add(idle, cohort.spec.resourceGroups)
    return idle


def _add(idle: Quota, groups: tuple[ResourceGroup, ...]) -> None:
    for group in groups:
        for flavor in group.flavors:
            for entry in flavor.resources:
                _change(idle, (flavor.name, entry.name), entry.nominalQuota, 1)


def _change(idle: Quota, key: FlavorResource, text: str | int, sign: int) -> None:
    """What is no quantity counts as nothing."""
    try:
        idle[key] += sign * amount(key[1], text)
    except ValueError:
        return
