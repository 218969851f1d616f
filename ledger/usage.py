"""PURE. Who uses, borrows and lends how many accelerators, by one picture of the cluster.

Kueue keeps one pool of quota and records neither lenders nor which job borrows. Both are derived by
the rules of the quota_controller, so that the sums are those of the allocations' statuses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cede.api.apportion import in_proportion
from cede.api.resources import FlavorResource, Quota, total
from ledger.picture import Holding, Picture, Team


class JobKey(NamedTuple):
    """A job, one of its resources, and the class that it had then."""

    team: str
    namespace: str
    job: str
    uid: str
    priority_class: str
    instance_type: str
    resource: str


@dataclass(frozen=True, slots=True)
class JobUse:
    used: int
    # the part of `used` beyond the team's own quota
    borrowed: int


@dataclass(frozen=True, slots=True, eq=False)
class TeamUse:
    """One team; equal only to itself, because it stays the same object while nothing changes."""

    owned: Quota = field(default_factory=Quota)
    available: Quota = field(default_factory=Quota)
    used: Quota = field(default_factory=Quota)
    borrowed: Quota = field(default_factory=Quota)
    # in the order in which they got their quota
    jobs: Mapping[JobKey, JobUse] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pool:
    """All accelerators of one kind."""

    capacity: int = 0
    # the part that is in no available quota, and the part of that which is borrowed
    unallocated: int = 0
    unallocated_lent: int = 0
    # used beyond the capacity: nodes failed, and their jobs have quota still
    excess: int = 0


@dataclass(frozen=True, slots=True)
class Use:
    """Accelerators. For each kind: used − excess + idle of all teams + the idle part of what is
    unallocated = capacity; and borrowed = lent + unallocated_lent + excess."""

    pools: Mapping[FlavorResource, Pool] = field(default_factory=dict)
    teams: Mapping[str, TeamUse] = field(default_factory=dict)
    lent: Mapping[str, Quota] = field(default_factory=dict)


class UseReader:
    """Counts a team again only when its quota or its jobs have changed."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[Team, tuple[Holding, ...], TeamUse]] = {}
        self._kinds = frozenset[FlavorResource]()

    def read(self, picture: Picture) -> Use:
        if picture.kinds != self._kinds:
            self._counted.clear()
            self._kinds = picture.kinds
        counted = {}
        # jobs may outlive the allocation of their team, and other queues may use its nodes
        for name in (picture.teams.keys() | picture.holdings.keys()) - {""}:
            team = picture.teams.get(name, NOTHING)
            holdings = picture.holdings.get(name, ())
            kept = self._counted.get(name)
            if not kept or kept[0] is not team or kept[1] is not holdings:
                kept = (team, holdings, team_use(name, team, holdings, picture.kinds))
            counted[name] = kept
        self._counted = counted
        return share({name: kept[2] for name, kept in counted.items()}, picture)


NOTHING = Team()


def team_use(
    name: str, team: Team, holdings: Iterable[Holding], kinds: frozenset[FlavorResource]
) -> TeamUse:
    """The oldest jobs have the team's own quota; what does not fit into it is borrowed."""
    used = Quota()
    jobs = dict[JobKey, JobUse]()
    for holding in holdings:
        for key, value in holding.amounts.items():
            if key not in kinds:
                continue
            own = min(value, max(0, team.available[key] - used[key]))
            used[key] += value
            job_key = JobKey(
                name,
                holding.namespace,
                holding.job,
                holding.uid,
                holding.priority_class,
                *key,
            )
            # an owner may have several Workloads
            other = jobs.get(job_key, JobUse(0, 0))
            jobs[job_key] = JobUse(other.used + value, other.borrowed + value - own)
    return TeamUse(team.owned, team.available, used, used - team.available, jobs)


def share(teams: Mapping[str, TeamUse], picture: Picture) -> Use:
    """Borrowed quota is that of nobody first, then that of teams that lend, then that of others."""
    available = total(team.available for team in teams.values())
    borrowed = total(team.borrowed for team in teams.values())
    used = total(team.used for team in teams.values())
    pools = {}
    lent: dict[str, Quota] = {name: Quota() for name in teams}
    for key in picture.capacity.keys() | available.keys() | used.keys():
        # the statuses of policy and allocations are written one after the other
        capacity = max(picture.capacity[key], available[key])
        unallocated = capacity - available[key]
        missing = borrowed[key]
        unallocated_lent = min(missing, unallocated) if picture.shares_unallocated else 0
        missing -= unallocated_lent
        for lends in (True, False):
            idle = _idle(teams, picture, key, lends=lends)
            for name, value in in_proportion(idle, missing).items():
                lent[name][key] = value
                missing -= value
        pools[key] = Pool(capacity, unallocated, unallocated_lent, missing)
    return Use(pools, teams, lent)


def _idle(
    teams: Mapping[str, TeamUse], picture: Picture, key: FlavorResource, *, lends: bool
) -> dict[str, int]:
    """The idle quota of the teams that lend, or of those that do not, where there is some."""
    idle = {}
    for name, team in teams.items():
        free = team.available[key] - team.used[key]
        if free > 0 and picture.teams.get(name, NOTHING).lends == lends:
            idle[name] = free
    return idle
