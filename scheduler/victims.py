"""The gentlest way to free what a claim needs: all of it, or nothing. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from cede.api.reasons import CessionReason
from cede.api.resources import Quota, describe_amounts
from scheduler.cohort import Tree
from scheduler.preemptors import Claim
from scheduler.snapshot import Running


@dataclass(frozen=True, slots=True)
class Give:
    """One victim: from one size to a smaller; 0 stops it whole."""

    job: Running
    to: int

    @property
    def stop(self) -> bool:
        return self.to == 0

    def freed(self) -> Quota:
        if self.stop:
            return Counter(self.job.usage)
        return Counter(
            {key: each * (self.job.size - self.to) for key, each in self.job.each.items()}
        )


@dataclass(frozen=True, slots=True)
class Way:
    gives: tuple[Give, ...]
    why: str
    reason: CessionReason = CessionReason.RECLAIM_OWN_QUOTA


Gives = dict[str, Give]
"""By the Workload's uid, in the order they were chosen."""


def choose(
    claim: Claim, tree: Tree, running: Iterable[Running], now: float, min_runtime_s: float
) -> Way:
    """Who gives what. Shrinks before stops; among stops the least lost work; then the lowest
    priority, then the youngest.

    Eligible is only what Kueue itself might preempt for this claim: jobs of queues that borrow, and
    lower priority in its own queue.
    A lender is shrunk below its own quota only where its sizes leave no other way, and never once
    it has stopped borrowing.
    """
    able = [
        job
        for job in running
        if _eligible(claim, tree, job) and job.active and now - job.started >= min_runtime_s
    ]
    shrinks = [job for job in able if job.allowed and job.size > job.smallest]
    shrinks.sort(key=lambda j: (claim.past_own and _foreign(claim, j), j.priority, -j.since, j.key))
    gives: Gives = {}
    for across in (False, True):
        gives = _shrink(claim, tree, shrinks, across)
        if _enough(claim, tree, gives):
            return _way(claim, tree, gives)
    # nor while a slice waits: see grow
    stops = [job for job in able if not (job.allowed and job.parallelism > job.size)]
    stops.sort(
        key=lambda j: (
            claim.past_own and _foreign(claim, j),
            j.lost_by_stop,
            j.priority,
            -j.since,
            j.key,
        )
    )
    gives = _stop(claim, tree, stops, gives)
    if _enough(claim, tree, gives):
        return _way(claim, tree, gives)
    lack = describe_amounts(
        _after(tree, gives).missing(claim.by.queue, claim.request) or claim.missing
    )
    return Way(
        (),
        (
            f"{claim.by.job[1] or claim.by.key[1]} waits: all that may be taken back still leaves "
            f"{lack} missing"
        ),
    )


def _foreign(claim: Claim, job: Running) -> bool:
    return job.queue != claim.by.queue


def _eligible(claim: Claim, tree: Tree, job: Running) -> bool:
    queue = tree.queues[job.queue]
    asking = tree.queues[claim.by.queue]
    if not queue.ours or not any(job.usage[key] for key in claim.missing):
        return False
    if not _foreign(claim, job):
        return queue.preempts_own and job.priority < claim.by.priority
    return queue.cohort == asking.cohort != "" and queue.borrows(claim.missing)


def _may_still(claim: Claim, tree: Tree, job: Running) -> bool:
    """A queue back within its own quota owes nothing more; and nobody owes a claim that would
    borrow."""
    return not _foreign(claim, job) or (
        tree.queues[job.queue].borrows(claim.missing) and _within_own(claim, tree)
    )


def _within_own(claim: Claim, tree: Tree) -> bool:
    queue = tree.queues[claim.by.queue]
    return queue.owns(Counter(queue.usage) + claim.request, of=claim.request)


def _after(tree: Tree, gives: Gives) -> Tree:
    for give in gives.values():
        tree = tree.using(give.job.queue, give.freed(), -1)
    return tree


def _enough(claim: Claim, tree: Tree, gives: Gives) -> bool:
    left = _after(tree, gives)
    rightful = _within_own(claim, left) or not any(
        _foreign(claim, give.job) for give in gives.values()
    )
    return rightful and left.fits(claim.by.queue, claim.request)


def _shrink(claim: Claim, tree: Tree, jobs: Iterable[Running], across: bool) -> Gives:
    """One after the other by as much as is needed; with `across` also where a lender ends below its
    own quota."""
    gives: Gives = {}
    for job in jobs:
        left = _after(tree, gives)
        if left.fits(claim.by.queue, claim.request):
            break
        if not _may_still(claim, left, job):
            continue
        ways = [Give(job, size) for size in sorted(job.allowed, reverse=True) if size < job.size]
        if _foreign(claim, job) and not across:
            ways = [give for give in ways if _stays_whole(claim, left, give)]
        enough = (
            g
            for g in ways
            if left.using(job.queue, g.freed(), -1).fits(claim.by.queue, claim.request)
        )
        if ways:
            gives[job.uid] = next(enough, ways[-1])
    return gives


def _stays_whole(claim: Claim, tree: Tree, give: Give) -> bool:
    """Whether the lender keeps all of its own."""
    queue = tree.queues[give.job.queue]
    left = tree.using(queue.name, give.freed(), -1).queues[queue.name].usage
    return all(
        left[key] >= queue.limits[key].nominal
        for key in claim.missing
        if key in queue.limits and give.job.usage[key]
    )


def _stop(claim: Claim, tree: Tree, jobs: Iterable[Running], gives: Gives) -> Gives:
    """The same with whole jobs stopped on top, until it is enough."""
    for job in jobs:
        if _enough(claim, tree, gives):
            break
        others = {uid: give for uid, give in gives.items() if uid != job.uid}
        if _may_still(claim, _after(tree, others), job):
            gives = others | {job.uid: Give(job, 0)}
    return gives


def _way(claim: Claim, tree: Tree, gives: Gives) -> Way:
    """Nobody gives more than is needed after all: last chosen first, each keeps the largest size
    that leaves enough."""
    for uid, give in reversed(list(gives.items())):
        without = {other: g for other, g in gives.items() if other != uid}
        if _enough(claim, tree, without):
            gives = without
            continue
        sizes = sorted((s for s in give.job.allowed if give.to < s < give.job.size), reverse=True)
        larger = (gives | {uid: Give(give.job, size)} for size in sizes)
        gives = next((better for better in larger if _enough(claim, tree, better)), gives)
    return Way(tuple(gives.values()), _words(claim, gives.values()), _reason(claim, gives.values()))


def _reason(claim: Claim, gives: Iterable[Give]) -> CessionReason:
    foreign = {_foreign(claim, give.job) for give in gives}
    if foreign == {True, False}:
        return CessionReason.RECLAIM_AND_PRIORITY
    return CessionReason.RECLAIM_OWN_QUOTA if True in foreign else CessionReason.PRIORITY_IN_TEAM


def _words(claim: Claim, gives: Iterable[Give]) -> str:
    by = claim.by
    parts = []
    for give in gives:
        name = give.job.job[1] or give.job.key[1]
        what = f"{name} ({give.job.queue}) " + (
            "stops" if give.stop else f"shrinks from {give.job.size} to {give.to}"
        )
        parts.append(what)
    reason = (
        "takes back its own" if not claim.past_own else "goes before lower priority in its team"
    )
    return (
        f"{by.job[1] or by.key[1]} ({by.queue}) {reason}: it lacks {describe_amounts(claim.missing)}; "
        f"{', '.join(parts)}"
    )
