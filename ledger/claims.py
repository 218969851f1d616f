"""PURE. What jobs miss since capacity was taken back from them, and by whose claim.

A job that had 8 accelerators and was left 4 misses 4 until it has 8 again or ends. That is counted
by the claim of the team for which they were taken back.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from cede.api.cession import Cession, Target
from cede.api.resources import FlavorResource, Quota, total
from ledger.picture import Holding, Picture


class ClaimKey(NamedTuple):
    """A job, the team for which capacity was taken from it, and one of its resources."""

    team: str
    namespace: str
    job: str
    uid: str
    claimant: str
    instance_type: str
    resource: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What the job had of one kind of accelerator, and what it is left."""

    instance_type: str
    resource: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class TakeBack:
    """What one Cession takes from one of its targets."""

    cession: str
    # in the Cession
    target: str
    # of the job's Workloads
    uid: str
    team: str
    namespace: str
    job: str
    claimant: str
    taken: tuple[Taken, ...]
    released: bool = False
    # the job has all of it again, or ended, or was not asked to give after all
    is_over: bool = False

    @property
    def key(self) -> "Key":
        return self.cession, self.target


Key = tuple[str, str]
"""(Cession, uid of the target)."""
Jobs = Mapping[str, tuple[Holding, ...]]
"""The Workloads of every job that has not finished, by the uid of the job and of each Workload."""


def jobs_of(picture: Picture) -> Jobs:
    jobs: dict[str, list[Holding]] = {}
    for holdings in picture.holdings.values():
        for holding in holdings:
            for uid in {holding.uid, holding.workload_uid}:
                jobs.setdefault(uid, []).append(holding)
    return {uid: tuple(holdings) for uid, holdings in jobs.items()}


def follow(
    known: Mapping[Key, TakeBack], cessions: Mapping[str, Cession], jobs: Jobs
) -> dict[Key, TakeBack]:
    """The take-backs that are not over, and those that are over since the last call.

    `cessions` are by name. A target whose size before nobody saw is left out: what it misses would
    be guessed.
    """
    following = {key: take_back for key, take_back in known.items() if not take_back.is_over}
    for cession in cessions.values():
        for target in () if cession.ended else cession.spec.targets:
            key = (cession.metadata.name, target.uid)
            take_back = None if key in known else _opened(cession, target, jobs)
            if take_back:
                following[key] = take_back
    return {
        key: _continued(take_back, cessions.get(take_back.cession), jobs)
        for key, take_back in following.items()
    }


def _opened(cession: Cession, target: Target, jobs: Jobs) -> TakeBack | None:
    holdings = [holding for holding in jobs.get(target.uid, ()) if holding.amounts]
    pods = sum(holding.pods for holding in holdings)
    has_released = bool(cession.target_status(target.uid).releasedTime)
    if not pods or (has_released and pods != target.toSize):
        return None
    amounts = total(holding.amounts for holding in holdings)
    return TakeBack(
        cession=cession.metadata.name,
        target=target.uid,
        uid=holdings[0].uid,
        team=target.queue,
        namespace=target.namespace,
        job=target.name,
        claimant=cession.spec.preemptor.queue,
        taken=tuple(
            Taken(*key, value * target.fromSize // pods, value * target.toSize // pods)
            for key, value in amounts.items()
        ),
    )


def _continued(take_back: TakeBack, cession: Cession | None, jobs: Jobs) -> TakeBack:
    holdings = jobs.get(take_back.uid, ())
    if not holdings:
        return replace(take_back, is_over=True)
    if not take_back.released:
        status = cession.target_status(take_back.target) if cession else None
        if status and status.releasedTime:
            take_back = replace(take_back, released=True)
        elif cession is None or cession.ended:
            return replace(take_back, is_over=True)
        return take_back
    if not missing(take_back, holdings):
        return replace(take_back, is_over=True)
    return take_back


def missing(take_back: TakeBack, holdings: Iterable[Holding]) -> Quota:
    """What the job still misses of what this Cession took."""
    present = total(holding.amounts for holding in holdings)
    lacks = Quota()
    for taken in take_back.taken:
        key = (taken.instance_type, taken.resource)
        lacks[key] = taken.before - max(present[key], taken.after)
    # without what it has again
    return +lacks


def claims(
    take_backs: Iterable[TakeBack], jobs: Jobs, kinds: frozenset[FlavorResource]
) -> dict[ClaimKey, int]:
    """The accelerators that jobs miss now, by claim."""
    result = Counter[ClaimKey]()
    for entry in take_backs:
        if not entry.released or entry.is_over:
            continue
        lacks = missing(entry, jobs.get(entry.uid, ()))
        for kind, value in lacks.items():
            if kind in kinds:
                result[_claim_key(entry, kind)] += value
    return dict(result)


def _claim_key(entry: TakeBack, kind: FlavorResource) -> ClaimKey:
    return ClaimKey(
        entry.team,
        entry.namespace,
        entry.job,
        entry.uid,
        entry.claimant,
        *kind,
    )
