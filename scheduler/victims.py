"""The gentlest way to free what a claim needs: all of it, or nothing. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cede.api.resources import Quota, in_words
from scheduler.claims import Claim
from scheduler.quota import Tree
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
        return Counter({key: each * (self.job.size - self.to) for key, each in self.job.each.items()})


@dataclass(frozen=True, slots=True)
class Way:
    gives: tuple[Give, ...]
    why: str


def choose(claim: Claim, tree: Tree, running: Iterable[Running], now: float, min_runtime_s: float) -> Way:
    """Who gives what. Shrinks before stops; among stops the least lost work; then the lowest priority, then the youngest.

    Eligible is only what Kueue itself might preempt for this claim: jobs of queues that borrow, and lower priority in its own queue.
    """
    able = [job for job in running if _eligible(claim, tree, job) and job.active and now - job.since >= min_runtime_s]
    shrinks = sorted((j for j in able if j.allowed and j.size > j.smallest), key=lambda j: (j.priority, -j.since, j.key))
    stops = sorted((j for j in able if j.key[1]), key=lambda j: (j.lost_by_stop, j.priority, -j.since, j.key))
    gives: dict[str, Give] = {}
    left = tree
    for job in shrinks:
        if left.fits(claim.by.queue, claim.request):
            break
        if _may_still(claim, left, job):
            give = _least(claim, left, job)
            gives[job.uid], left = give, left.using(job.queue, give.freed(), -1)
    for job in stops:
        if left.fits(claim.by.queue, claim.request):
            break
        if _may_still(claim, left, job):
            if before := gives.pop(job.uid, None):
                left = left.using(job.queue, before.freed())
            gives[job.uid] = Give(job, 0)
            left = left.using(job.queue, gives[job.uid].freed(), -1)
    if not left.fits(claim.by.queue, claim.request):
        lack = in_words(left.missing(claim.by.queue, claim.request))
        return Way((), f"{claim.by.job[1] or claim.by.key[1]} waits: all that may be taken back still leaves {lack} missing")
    needed = _give_back(claim, left, list(gives.values()))
    return Way(tuple(needed), _words(claim, needed))


def _eligible(claim: Claim, tree: Tree, job: Running) -> bool:
    if not any(job.usage[key] for key in claim.missing):
        return False
    if job.queue == claim.by.queue:
        return tree.queues[job.queue].preempts_own and job.priority < claim.by.priority
    same = tree.queues[job.queue].cohort == tree.queues[claim.by.queue].cohort != "" if job.queue in tree.queues else False
    return same and not claim.own_only and tree.queues[job.queue].borrows(claim.missing)


def _may_still(claim: Claim, tree: Tree, job: Running) -> bool:
    """A queue back within its own quota owes nothing more."""
    return job.queue == claim.by.queue or tree.queues[job.queue].borrows(claim.missing)


def _least(claim: Claim, tree: Tree, job: Running) -> Give:
    """The largest allowed size that is enough, else the smallest."""
    for size in sorted((s for s in job.allowed if s < job.size), reverse=True):
        give = Give(job, size)
        if tree.using(job.queue, give.freed(), -1).fits(claim.by.queue, claim.request):
            return give
    return Give(job, job.smallest)


def _give_back(claim: Claim, tree: Tree, gives: Sequence[Give]) -> list[Give]:
    """Leave out, last chosen first, whoever is not needed after all."""
    needed = list(gives)
    for give in reversed(gives):
        without = tree.using(give.job.queue, give.freed())
        if without.fits(claim.by.queue, claim.request):
            needed.remove(give)
            tree = without
    return needed


def _words(claim: Claim, gives: Sequence[Give]) -> str:
    by, parts = claim.by, []
    for give in gives:
        name = give.job.job[1] or give.job.key[1]
        what = f"{name} ({give.job.queue}) " + ("stops" if give.stop else f"shrinks from {give.job.size} to {give.to}")
        parts.append(what)
    reason = "takes back its own" if not claim.own_only else "goes before lower priority in its team"
    return f"{by.job[1] or by.key[1]} ({by.queue}) {reason}: it lacks {in_words(claim.missing)}; {', '.join(parts)}"
