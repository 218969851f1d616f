"""What must hold in every random world."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from cede.api.cession import Cession
from cede.api.cession_pause import FIRST_PAUSE_S, MAX_PAUSE_S
from cede.api.reasons import CessionPhase
from scheduler.actions import Action, OpenCession, SetWorkloadActive, UpdateCession
from scheduler.preemption.job_history import STOP_PAUSE_S
from scheduler.quota.cohort import STRICT_FIFO
from scheduler.simulate.objects import Job, Workload
from tests.harness.faulty_scheduler import FaultyScheduler

PATIENCE_S = 120.0
"""What was begun earlier than this before the end must have ended."""
MAX_CESSIONS = 2
"""That took something, until their preemptor is admitted. The pauses bound those that took nothing.
"""


class Promises:
    """Watches a world, and notes what does not hold."""

    def __init__(self, scheduler: FaultyScheduler) -> None:
        self.violations: list[str] = []
        # stops, and those of jobs that were stopped a moment before
        self.stops = 0
        self.stops_again = 0
        self._scheduler = scheduler
        self._cluster = scheduler.cluster
        self._start = self._cluster.now
        # by Workload: since when it waits although its team's own quota covers it
        self._rightful_since: dict[str, float] = {}
        # by job: when it was stopped, by the clock of who led then
        self._stops_of = defaultdict[str, list[float]](list)
        # by the uid of a scale-up slice that was preempted for: its job
        self._growing: dict[str, str] = {}
        # by Workload, or job that grows: when its Cessions failed, since one was completed
        self._failures_of = defaultdict[str, list[float]](list)
        scheduler.watchers += [self._watch, self._watch_attempts]
        self._cluster.clock.after(1.0, self._check)

    # --- each second ------------------------------------------------------------------------------
    def _check(self) -> None:
        quota = self._cluster.kueue.quota()
        if quota.over():
            self._violate(f"quota over: by {quota.over()}")
        rightful = {workload.name for workload in self._rightful()}
        for name in rightful:
            self._rightful_since.setdefault(name, self._cluster.now)
        for name in set(self._rightful_since) - rightful:
            del self._rightful_since[name]
        self._cluster.clock.after(1.0, self._check)

    def _rightful(self) -> Iterator[Workload]:
        """The first of each queue that its own quota would cover, while others borrow; and those
        that simply fit."""
        quota = self._cluster.kueue.quota()
        done = set[str]()
        for workload in self._waiting():
            name = workload.job.spec.team
            queue = self._cluster.kueue.queues[name]
            if name in done or queue.on_hold or not workload.active:
                continue
            others_borrow = any(quota.borrows(other) for other in quota.queues if other != name)
            is_owed = others_borrow and not quota.borrows(name, workload.added)
            if is_owed or workload.added <= quota.available(name):
                done.add(name)
                yield workload

    def _waiting(self) -> list[Workload]:
        jobs = self._cluster.jobs.values()
        waiting = [job.workload for job in jobs if job.workload.reserved_since is None]
        return sorted(waiting, key=lambda w: (-w.job.spec.priority, w.created, w.uid))

    # --- before each write ------------------------------------------------------------------------
    def _watch(self, action: Action) -> None:
        """A job is stopped twice in ten minutes only by the owner of what its team borrows, and
        only if no other job of its team could be stopped in its place; or if it was to shrink, and
        the server lets nobody resize it."""
        if not isinstance(action, SetWorkloadActive) or action.active:
            return
        jobs = self._cluster.jobs.values()
        job = next((job for job in jobs if job.workload.name == action.workload[1]), None)
        if job is None or not job.workload.active or job.workload.reserved_since is None:
            return
        self.stops += 1
        if self._was_stopped_lately(job):
            self.stops_again += 1
            if job.uid not in self._scheduler.unresizable:
                self._check_another_stop(job, action.cession)
        self._stops_of[job.uid].append(self._scheduler.now)

    def _was_stopped_lately(self, job: Job) -> bool:
        """By the clock of who leads."""
        stops = self._stops_of[job.uid]
        return bool(stops) and self._scheduler.now - stops[-1] < STOP_PAUSE_S

    def _check_another_stop(self, job: Job, name: str) -> None:
        cession = self._scheduler.cessions[name]
        preemptor = cession.spec.preemptor
        what = f"stopped again: {job.spec.name} for {name}"
        if preemptor.queue == job.spec.team:
            self._violate(f"{what}, of its own team")
        if cession.spec.reason == "ReclaimFairShare":
            self._violate(f"{what}, for a fair share")
        jobs = self._cluster.jobs.values()
        if any(other.scale_up and other.scale_up.uid == preemptor.uid for other in jobs):
            self._violate(f"{what}, for growth")
        opened = cession.metadata.created
        spared = self._targets() | self._winners_over(preemptor.uid)
        rest = [other for other in jobs if other.uid not in spared]
        for other in rest:
            if self._could_stop_instead(other, job, opened):
                self._violate(f"{what}, and {other.spec.name} could be")

    def _targets(self) -> set[str]:
        """The uids of all jobs that were ever asked."""
        cessions = self._scheduler.cessions.values()
        return {target.uid for cession in cessions for target in cession.spec.targets}

    def _winners_over(self, uid: str) -> set[str]:
        """The uids of the jobs for which this Workload's job was stopped."""
        cessions = self._scheduler.cessions.values()
        workloads = {job.workload.uid: job.uid for job in self._cluster.jobs.values()}
        job = workloads.get(uid, "")
        preemptors = [
            cession.spec.preemptor.uid
            for cession in cessions
            for target in cession.spec.targets
            if target.uid == job
        ]
        return {workloads.get(preemptor, "") for preemptor in preemptors}

    def _could_stop_instead(self, other: Job, job: Job, opened: float) -> bool:
        """Whether it has run all the while, for long enough, and releases as much."""
        workload = other.workload
        min_runtime_s = self._scheduler.policy.preemption.minRuntimeSeconds
        return (
            other.spec.team == job.spec.team
            and workload.active
            and not workload.is_evicting
            and workload.reserved_since is not None
            and workload.reserved_since < opened
            and opened - other.started >= min_runtime_s
            and other.scale_up is None
            and workload.count >= job.workload.count
            and other.shrunk_at < opened
            and not self._stops_of[other.uid]
        )

    def _watch_attempts(self, action: Action) -> None:
        """After each Cession that failed, whoever it was for pauses twice as long as before."""
        if isinstance(action, OpenCession):
            preemptor = action.cession.spec.preemptor
            # a slice is gone when the growth ends, and the next growth has another one
            for job in self._cluster.jobs.values():
                if job.scale_up and job.scale_up.uid == preemptor.uid:
                    self._growing[preemptor.uid] = job.uid
            failures = self._failures_of[self._uid_of_pause(action.cession)]
            pause_s = FIRST_PAUSE_S * 2.0 ** (len(failures) - 1)
            # the next leader's clock may be behind
            if failures and 0.0 <= self._scheduler.now - failures[-1] < min(pause_s, MAX_PAUSE_S):
                self._violate(f"no pause: {action.cession.metadata.name}")
        elif isinstance(action, UpdateCession) and action.name in self._scheduler.cessions:
            failures = self._failures_of[self._uid_of_pause(self._scheduler.cessions[action.name])]
            if action.status.phase is CessionPhase.FAILED:
                failures.append(self._scheduler.now)
            elif action.status.phase is CessionPhase.COMPLETED:
                failures.clear()

    def _uid_of_pause(self, cession: Cession) -> str:
        """Of a Workload, or of a job that grows."""
        uid = cession.spec.preemptor.uid
        return self._growing.get(uid, uid)

    # --- at the end -------------------------------------------------------------------------------
    def check_the_end(self) -> None:
        for violation in self._left_behind():
            self._violate(violation)

    def _left_behind(self) -> Iterator[str]:
        now = self._cluster.now
        cessions = self._scheduler.cessions.values()
        opened = {cession.metadata.name for cession in cessions if cession.open}
        for cession in cessions:
            if cession.open and now - cession.metadata.created > PATIENCE_S:
                yield f"Cession open: {cession.metadata.name} is {cession.status.phase}"
        tries = Counter[str]()
        for cession in cessions:
            preemptor = cession.spec.preemptor
            uid = self._uid_of_pause(cession)
            tries[uid] += any(target.releasedTime for target in cession.status.targets)
            if tries[uid] > MAX_CESSIONS and uid not in self._scheduler.ungrowable:
                yield f"many Cessions: {preemptor.workload}"
            if cession.status.phase is CessionPhase.COMPLETED or cession.status.admittedTime:
                # whoever waits again later waits for something else
                del tries[uid]
        opened_for = {c.spec.preemptor.queue for c in cessions if c.open}
        for queue in self._cluster.kueue.queues.values():
            if queue.strategy == STRICT_FIFO and queue.name not in opened_for:
                yield f"StrictFIFO left: {queue.name}"
            if queue.private and queue.name not in opened_for:
                yield f"private quota left: {queue.name}"
        for guarded in self._cluster.kueue.guards:
            if guarded not in opened:
                yield f"guard left: {guarded}"
        for job in self._cluster.jobs.values():
            if not job.workload.active and job.workload.stopped_for not in opened:
                yield f"left inactive: {job.spec.name}"
        for name, since in self._rightful_since.items():
            if now - since > PATIENCE_S:
                yield f"rightful waits: {name} for {now - since:.0f} s"

    def _violate(self, violation: str) -> None:
        if violation not in self.violations:
            self.violations.append(violation)
