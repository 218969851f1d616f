"""PURE. Who holds what of whom: told from what Kueue has reserved. Kueue keeps one pool and no
names; this is the account we give of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api.allocation import ComputeAllocation
from cede.api.objects import CLUSTER_QUEUES, Json
from cede.api.resources import Quota, amount, total
from quota_controller.desired.capacity import Shares, divided
from quota_controller.desired.conflicts import Live


@dataclass(frozen=True)
class Account:
    """By allocation and (instance type, resource)."""

    # what its jobs hold
    used: Mapping[str, Quota] = field(default_factory=dict)
    # what of that is beyond its own quota
    borrowed: Mapping[str, Quota] = field(default_factory=dict)
    # what others hold of its own
    lent: Mapping[str, Quota] = field(default_factory=dict)
    # of the whole cohort: what may be borrowed now, by whoever may borrow
    idle: Quota = field(default_factory=Quota)


def account(
    allocations: Iterable[ComputeAllocation],
    shares: Shares,
    live: Live,
    *,
    shares_unallocated: bool,
) -> Account:
    """What is borrowed comes from unallocated capacity first, then from who lends, then from who
    lends no longer."""
    allocations = list(allocations)
    used = {}
    borrowed = {}
    for a in allocations:
        used[a.metadata.name], borrowed[a.metadata.name] = usage(
            live.get((CLUSTER_QUEUES, ("", a.metadata.name)))
        )
    idle = {name: shares.granted.get(name, Quota()) - used[name] for name in used}
    lends = {a.metadata.name for a in allocations if a.spec.sharing.strategy != "DontLend"}
    lenders = {name: idle[name] for name in used if name in lends}
    closed = {name: idle[name] for name in used if name not in lends}
    open_ = shares.unallocated if shares_unallocated else Quota()
    out = total(borrowed.values())
    by_lenders = lent(lenders, out - open_)
    by_closed = lent(closed, out - open_ - total(by_lenders.values()))
    return Account(
        used, borrowed, by_lenders | by_closed, idle=total([*lenders.values(), open_]) - out
    )


def free(allocation: ComputeAllocation, granted: Quota, limit: Quota | None, of: Account) -> Quota:
    """What the team's next job could have now: its own idle quota that is not lent, and what it may
    still borrow.

    `limit`: the most it may borrow; None: no limit. Kueue's own rule for one flat cohort
    (pkg/cache/scheduler, resource_node.go).
    """
    name = allocation.metadata.name
    own = granted - of.used.get(name, Quota())
    if allocation.spec.sharing.strategy == "DontLend":
        return own - of.lent.get(name, Quota())
    return of.idle if limit is None else of.idle & (own + (limit - of.borrowed.get(name, Quota())))


def usage(queue: Json | None) -> tuple[Quota, Quota]:
    """(used, borrowed) of a queue by (flavor, resource), as Kueue counts what it has reserved."""
    used = Quota()
    borrowed = Quota()
    for flavor in ((queue or {}).get("status") or {}).get("flavorsReservation") or []:
        for resource in flavor.get("resources", []):
            key = (flavor["name"], resource["name"])
            used[key] = amount(key[1], resource.get("total", 0))
            borrowed[key] = amount(key[1], resource.get("borrowed", 0))
    return used, borrowed


def lent(idle: Mapping[str, Quota], borrowed: Quota) -> dict[str, Quota]:
    """What is borrowed, from those with idle quota, in proportion to it."""
    out: dict[str, Quota] = {name: Quota() for name in idle}
    for key, amount_ in borrowed.items():
        lenders = {name: quota[key] for name, quota in idle.items() if quota[key] > 0}
        for name, value in divided(lenders, amount_).items():
            if value:
                out[name][key] = value
    return out


def lending_limits(allocation: ComputeAllocation, lent_now: Quota) -> Quota | None:
    """The most that others may hold of its quota; None: no limit.

    Who lends no longer still lends what is out, and gets it back as borrowers end or cede. Kueue
    lets an owner use at once
    what may not be lent, borrowed or not: its jobs would be admitted, and their pods would find no
    room.
    """
    return lent_now if allocation.spec.sharing.strategy == "DontLend" else None
