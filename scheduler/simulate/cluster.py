"""PURE. The simulated cluster: Kueue, the Job controller and the pods, on a virtual clock."""

from collections.abc import Iterable

from scheduler.actions import CreateGuard, DeleteGuard, JoinGuard, SetPrivateQuota
from scheduler.simulate import job_progress
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.clock import Clock
from scheduler.simulate.kueue import Kueue, Settings
from scheduler.simulate.kueue_cycle import run_cycle
from scheduler.simulate.objects import Guard, Job, JobSpec, Queue, TeamQuota, Workload


class Cluster:
    """Jobs come, wait, train, shrink, stop and end. Whoever schedules calls the verbs below."""

    def __init__(
        self,
        teams: Iterable[TeamQuota],
        settings: Settings,
        assumptions: Assumptions | None = None,
    ) -> None:
        self.clock = Clock()
        self.kueue = Kueue(teams, settings)
        self.assumptions = assumptions or Assumptions()
        # by uid; ended jobs are in `ended`
        self.jobs: dict[str, Job] = {}
        self.ended: list[Job] = []
        # seconds to owner: how long jobs waited that their team's own quota covered
        self.owed: list[float] = []
        # accelerator-seconds with quota, and accelerator-seconds of training, up to `_counted`
        self.used = 0.0
        self.trained = 0.0
        # changes with everything that a scheduler may see
        self.version = 0
        self._counted = self.clock.now
        self._in_use = 0
        self._training = 0
        self._cycle_is_planned = False
        self._batch_is_planned = False
        self._slices = 0

    @property
    def now(self) -> float:
        return self.clock.now

    # --- users ------------------------------------------------------------------------------------
    def submit(self, spec: JobSpec) -> Job:
        """The job waits from now on; an elastic one at its smallest size."""
        job = Job(spec, spec.sizes[0] if spec.sizes else spec.accelerators)
        job.workload = Workload(spec.name, job, job.parallelism, self.now)
        job.submitted = self.now
        self.jobs[job.uid] = job
        self.kueue.submit(job.workload)
        self._changed()
        return job

    def end(self, job: Job) -> None:
        """The job finishes, or its user deletes it."""
        if job.ended is not None:
            return
        self._train(job, 0)
        job.ended = self.now
        job.pods_epoch += 1
        job.ready = 0
        self._drop_scale_up(job)
        self.kueue.withdraw(job.workload)
        self.kueue.release(job.workload, self.now)
        del self.jobs[job.uid]
        self.ended.append(job)
        self._changed()

    def edit(self, job: Job, accelerators: int) -> None:
        """The user changes the size of a job that waits."""
        if job.workload.reserved_since is None and not job.is_elastic:
            self.kueue.withdraw(job.workload)
            job.parallelism = job.workload.count = accelerators
            self.kueue.submit(job.workload)
            self._changed()

    def hold(self, queue: str, *, on_hold: bool) -> None:
        """Kueue admits nothing from a ClusterQueue that is on hold."""
        self.kueue.queues[queue].on_hold = on_hold
        self._capacity_changed()

    # --- what a scheduler may do ------------------------------------------------------------------
    def set_active(self, workload: Workload, *, active: bool, cession: str = "") -> None:
        """An inactive Workload is stopped; an active one waits at its old place."""
        workload.stopped_for = cession
        if workload.active == active:
            return
        workload.active = active
        if workload.reserved_since is None:
            self.kueue.submit(workload)
        elif not active:
            self.evict(workload)
            self.kueue.free(workload, self.now)
        self._changed()

    def requeue(self, workload: Workload, since: str) -> None:
        """Kueue tries it in its next cycle."""
        self.kueue.requeue(workload, since)
        self._changed()

    def set_strategy(self, queue: str, strategy: str) -> None:
        self.kueue.set_strategy(queue, strategy, self.now)
        self._changed()

    def set_quota(self, quota: TeamQuota) -> None:
        """The ClusterQueue of this name has this quota."""
        self.kueue.set_quota(quota, self.now)
        self._changed()

    def change_guard(self, action: CreateGuard | JoinGuard | DeleteGuard) -> None:
        """Kueue admits a guard at once, and ends it after its limit."""
        made = self.kueue.change_guard(action)
        if isinstance(action, CreateGuard) and made:
            self.clock.after(action.limit_s, lambda: self._end_guard(action.cession, made))
        self._capacity_changed()

    def _capacity_changed(self) -> None:
        self.kueue.capacity_changed(self.now)
        self._changed()

    def _end_guard(self, cession: str, guard: Guard) -> None:
        self.kueue.end_guard(cession, guard)
        self._capacity_changed()

    def set_private_quota(self, queue: Queue, action: SetPrivateQuota) -> None:
        """The quota that the action writes, and its note."""
        self.kueue.set_private_quota(queue, action, self.now)
        self._changed()

    def resize(self, job: Job, size: int, *, shrinks: bool) -> None:
        """Set the Job's parallelism: fewer pods at once, more when Kueue has admitted them."""
        job.version += 1
        job.parallelism = size
        self._drop_scale_up(job)
        if shrinks:
            job.shrunk_at = self.now
            job.shrinks += 1
        if job.workload.reserved_since is None:
            job.workload.count = size
            self.kueue.submit(job.workload)
        elif size < job.workload.count and not job.workload.is_evicting:
            self.kueue.shrink(job.workload, size, self.now)
            job.ready = min(job.ready, size)
            self._train(job, min(job.training, job.ready))
        elif size > job.workload.count and not job.workload.is_evicting:
            self._slices += 1
            name = f"{job.spec.name}-{self._slices}"
            job.scale_up = Workload(name, job, size, self.now, replaces=job.workload)
            self.kueue.submit(job.scale_up)
        self._changed()

    def request_size(self, job: Job, size: int, cession: str) -> None:
        """Ask the runtime. It changes after the step, and after a save if the size is 0."""
        if not job.answers or not job.ready or (job.wanted, job.cession) == (size, cession):
            return
        job.wanted = size
        job.cession = cession
        job.request_epoch += 1
        if size and size == job.training:
            job.is_changing = False
        elif size or job.training:
            job.is_changing = True
            epoch = job.request_epoch
            seconds = self.assumptions.step_s + self.assumptions.handover_s
            if not size:
                seconds += self.assumptions.save_s
            self.clock.after(seconds, lambda: self._has_changed(job, epoch))
        self._changed()

    def evict(self, workload: Workload) -> None:
        """The pods end; a moment later its quota is free, and the job waits again."""
        job = workload.job
        if workload.is_evicting or workload.reserved_since is None:
            return
        workload.is_evicting = True
        self._drop_scale_up(job)
        job_progress.settle(job, self.now, self.assumptions)
        job_progress.lose(job, self.now)
        self._train(job, 0)
        job.pods_epoch += 1
        job.request_epoch += 1
        job.ready = 0
        job.wanted = 0
        job.cession = ""
        job.is_changing = job.is_parked = False
        self.clock.after(self.assumptions.eviction_s, lambda: self._is_evicted(workload))
        self._changed()

    # --- what happens by itself -------------------------------------------------------------------
    def count(self) -> None:
        """Afterwards `used` and `trained` are up to date."""
        passed = self.now - self._counted
        self.used += passed * self._in_use
        self.trained += passed * self._training
        self._counted = self.now
        self._in_use = sum(queue.usage for queue in self.kueue.queues.values())

    def _changed(self) -> None:
        self.version += 1
        self.count()
        self._plan_kueue()

    def _plan_kueue(self) -> None:
        if self.kueue.has_heads and not self._cycle_is_planned:
            self._cycle_is_planned = True
            self.clock.after(self.assumptions.cycle_s, self._cycle)
        if self.kueue.batch_at is not None and not self._batch_is_planned:
            self._batch_is_planned = True
            self.clock.at_time(self.kueue.batch_at, self._batch)

    def _batch(self) -> None:
        self._batch_is_planned = False
        self.kueue.run_batch()
        self._plan_kueue()

    def _cycle(self) -> None:
        self._cycle_is_planned = False
        result = run_cycle(self.kueue, self.now)
        for workload in result.owed:
            if workload.replaces is None and workload.job.owed_since is None:
                workload.job.owed_since = self.now
        for workload in result.preempted:
            self.evict(workload)
        for workload in result.admitted:
            self._is_admitted(workload)
        if result.admitted:
            self._changed()
        self._plan_kueue()

    def _is_admitted(self, workload: Workload) -> None:
        job = workload.job
        if job.scale_up is workload:
            job.scale_up = None
            job.workload = workload
        else:
            job.started = self.now
            if job.first_admitted is None:
                job.first_admitted = self.now
            if job.stops:
                job.lost += self.assumptions.start_s * workload.count
            if job.owed_since is not None:
                self.owed.append(self.now - job.owed_since)
                job.owed_since = None
        epoch = job.pods_epoch
        self.clock.after(self.assumptions.start_s, lambda: self._pods_are_ready(job, epoch))

    def _pods_are_ready(self, job: Job, epoch: int) -> None:
        if epoch != job.pods_epoch:
            return
        if not job.ready:
            job_progress.start(job, self.now)
        job.ready = min(job.workload.count, job.parallelism)
        if not job.is_parked and not job.is_changing:
            self._train(job, job.ready)
        self._changed()

    def _has_changed(self, job: Job, epoch: int) -> None:
        """The runtime has reached the size that it was asked for."""
        if epoch != job.request_epoch:
            return
        job.is_changing = False
        job.is_parked = job.wanted == 0
        self._train(job, min(job.wanted, job.ready))
        if job.is_parked:
            job_progress.save(job, self.now)
        self._changed()

    def _is_evicted(self, workload: Workload) -> None:
        workload.is_evicting = False
        self.kueue.release(workload, self.now)
        workload.count = workload.job.parallelism
        if workload.job.ended is None:
            self.kueue.submit(workload)
        self._changed()

    def _train(self, job: Job, pods: int) -> None:
        """From now on so many pods train."""
        job_progress.settle(job, self.now, self.assumptions)
        self.count()
        self._training += pods - job.training
        job.training = pods
        job.rate_epoch += 1
        if pods:
            epoch = job.rate_epoch
            seconds = max(0.0, job.spec.work - job.done) / pods
            self.clock.after(seconds, lambda: self._may_end(job, epoch))

    def _may_end(self, job: Job, epoch: int) -> None:
        if epoch == job.rate_epoch:
            self.end(job)

    def _drop_scale_up(self, job: Job) -> None:
        if job.scale_up:
            self.kueue.withdraw(job.scale_up)
            job.scale_up = None
