"""PURE. A choice of targets in the making: what they release, and whether that is enough."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

from scheduler.preemption.candidates import is_foreign
from scheduler.preemption.preemption_plan import Target
from scheduler.preemption.preemptors import ClaimKind, Preemptor
from scheduler.preemption.seats import Seats, leaving
from scheduler.quota.cohort import Share
from scheduler.quota.working_quota import WorkingQuota
from scheduler.snapshot.workloads import AdmittedWorkload

Rank = tuple[bool, bool, float]
"""The order in which queues give, the smallest first."""


class Trial:
    """The targets so far, by the Workload's uid, the one that changed last at the end. `quota` and
    `seats` are as they will be when all targets have released their capacity.

    With `seats`, nothing is enough before the preemptor's pods have room on nodes.
    """

    def __init__(
        self, preemptor: Preemptor, quota: WorkingQuota, seats: Seats | None = None
    ) -> None:
        self.preemptor = preemptor
        self.quota = quota
        self.targets: dict[str, Target] = {}
        self._seats = seats
        self._own = preemptor.workload.queue
        # foreign queues that give, by the number of their targets
        self._giving = Counter[str]()

    # --- what is enough ---------------------------------------------------------------------------
    @property
    def is_enough(self) -> bool:
        """Whether the preemptor fits, and takes from other teams only what it may."""
        if not self.quota.fits(self._own, self.preemptor.request) or not self._is_rightful():
            return False
        return self._seats is None or self._seats.are_enough

    def is_seated(self, seats: Seats) -> bool:
        """Whether the preemptor's pods would have room there when all targets have left."""
        for target in self.targets.values():
            _release_seats(seats, target, 1)
        return seats.are_enough

    def _is_rightful(self) -> bool:
        """Other teams give only to a team that stays within its own quota, or that ends with a
        share no larger than theirs."""
        if not self._giving:
            return True
        if self.preemptor.kind is ClaimKind.FAIR_SHARE:
            own = self.own_share()
            return all(self.quota.share(name) >= own for name in self._giving)
        return self.is_within_own

    @property
    def is_within_own(self) -> bool:
        return self.quota.owns_with(self._own, self.preemptor.request)

    def own_share(self) -> Share:
        """Of the preemptor's queue, with the preemptor (Kueue: "DRS values must include incoming
        workload", pkg/scheduler/preemption)."""
        return self.quota.share_with(self._own, self.preemptor.request)

    # --- who gives --------------------------------------------------------------------------------
    def may_give(self, name: str) -> bool:
        """A queue that is back within its nominal quota owes nothing more. No other queue owes
        anything to a preemptor that would itself borrow, except for a fair share."""
        if name == self._own:
            return True
        if not self.quota.borrows(name, self.preemptor.missing):
            return False
        return self.preemptor.kind is ClaimKind.FAIR_SHARE or self.is_within_own

    def rank(self, name: str) -> Rank:
        """The queue that is furthest over its share gives first. The preemptor's own queue gives
        before all others if the preemptor exceeds its quota, and after all others if not."""
        is_own = name == self._own
        by_share = self.preemptor.kind is ClaimKind.FAIR_SHARE
        weightless, share = self.own_share() if is_own and by_share else self.quota.share(name)
        is_later = not by_share and is_own != self.preemptor.exceeds_nominal
        return (is_later, not weightless, -share)

    # --- changes ----------------------------------------------------------------------------------
    def size(self, job: AdmittedWorkload) -> int:
        target = self.targets.get(job.uid)
        return job.size if target is None else target.size

    def give(self, job: AdmittedWorkload, size: int) -> None:
        """The job gives until it has this size. With its present size it is no target."""
        before = self.targets.pop(job.uid, None)
        if before:
            self._apply(before, -1)
        if size != job.size:
            self.targets[job.uid] = Target(job, size)
            self._apply(self.targets[job.uid], 1)

    def _apply(self, target: Target, sign: int) -> None:
        job = target.job
        change = self.quota.remove if sign > 0 else self.quota.add
        change(job.queue, target.released)
        if is_foreign(self.preemptor, job):
            self._giving[job.queue] += sign
            if not self._giving[job.queue]:
                del self._giving[job.queue]
        if self._seats:
            _release_seats(self._seats, target, sign)

    def shrink(self, job: AdmittedWorkload, rival: Rank | None, *, below_nominal: bool) -> bool:
        """The job shrinks until it is enough, or until the queue `rival` should give instead, or as
        far as it may. Returns False if it may not shrink any further."""
        before = self.size(job)
        options = [size for size in reversed(job.sizes_now) if size < before]
        suffices = self._tries(job, lambda: self.is_enough or self._is_behind(job.queue, rival))
        first = min(_first(options, suffices), len(options) - 1)
        may = self._tries(job, lambda: self._may_stay_so(job, below_nominal=below_nominal))
        if may(options[first]):
            return True
        # the options that are allowed come first
        count = bisect_right(options[:first], False, key=lambda size: not may(size))
        self.give(job, options[count - 1] if count else before)
        return False

    def grow_back(self, job: AdmittedWorkload) -> None:
        """The job gets back what the others make needless: all of it, or the largest size with
        which it is still enough."""
        before = self.size(job)
        enough = self._tries(job, lambda: self.is_enough)
        if enough(job.size):
            return
        larger = [size for size in job.sizes_now if before < size < job.size]
        count = bisect_right(larger, False, key=lambda size: not enough(size))
        self.give(job, larger[count - 1] if count else before)

    def smallest_gift(self, job: AdmittedWorkload) -> int | None:
        """The largest size of the job that is enough; None if none is. It gives nothing yet."""
        before = self.size(job)
        options = [size for size in reversed(job.sizes_now) if size < before]
        enough = self._tries(job, lambda: self.is_enough)
        first = _first(options, enough)
        self.give(job, before)
        return options[first] if first < len(options) else None

    def _tries(self, job: AdmittedWorkload, test: Callable[[], bool]) -> Callable[[int], bool]:
        """Whether the test passes when the job has this size."""

        def passes(size: int) -> bool:
            self.give(job, size)
            return test()

        return passes

    def _is_behind(self, name: str, rival: Rank | None) -> bool:
        return rival is not None and self.rank(name) > rival

    def _may_stay_so(self, job: AdmittedWorkload, *, below_nominal: bool) -> bool:
        """Whether the job's queue may give what it gives now."""
        if not is_foreign(self.preemptor, job):
            return True
        if self.preemptor.kind is ClaimKind.FAIR_SHARE:
            return self.quota.share(job.queue) >= self.own_share()
        return below_nominal or self._keeps_nominal(job)

    def may_stop(self, job: AdmittedWorkload) -> bool:
        """Whether the job may be stopped. Afterwards it gives what it gave before."""
        before = self.size(job)
        if before == job.size and not self.may_give(job.queue):
            return False
        # what it gave already does not make its queue owe less
        self.give(job, job.size)
        may = self.may_give(job.queue)
        self.give(job, 0)
        may = may and self._may_stay_so(job, below_nominal=True)
        self.give(job, before)
        return may

    def _keeps_nominal(self, job: AdmittedWorkload) -> bool:
        """Whether the job's queue still uses all of its nominal quota."""
        quotas = self.quota.queues[job.queue].quotas
        keys = [key for key in self.preemptor.missing if key in quotas and job.usage[key]]
        return all(self.quota.used(job.queue, key) >= quotas[key].nominal for key in keys)


def _release_seats(seats: Seats, target: Target, sign: int) -> None:
    for node, amounts in leaving(target.job, target.size).items():
        seats.release(node, amounts, sign)


def _first(options: Sequence[int], passes: Callable[[int], bool]) -> int:
    """The index of the first option that passes, of options of which all later ones pass too; their
    number if none does. Cheap if it is one of the first."""
    low = 0
    high = 0
    while high < len(options) and not passes(options[high]):
        low = high + 1
        high = 2 * high + 1
    return bisect_left(options, True, low, min(high, len(options)), key=passes)
