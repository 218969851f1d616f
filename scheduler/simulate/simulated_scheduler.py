"""PURE. Cede's scheduler on the simulated cluster: its own plan, and its actions."""

from dataclasses import replace

from cede.api.cession import Cession
from cede.api.objects import Meta, rfc3339
from cede.api.policy import PolicySpec
from scheduler.actions import (
    Action,
    AmendCession,
    CreateGuard,
    DeleteCession,
    DeleteGuard,
    JoinGuard,
    OpenCession,
    RecordEvent,
    RecordWorkloadEvent,
    RequestSize,
    RequeueWorkload,
    ResizeJob,
    SetPrivateQuota,
    SetQueueingStrategy,
    SetWorkloadActive,
    UpdateCession,
)
from scheduler.plan import Plan, plan
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.objects import Workload
from scheduler.simulate.picture import Picture


class SimulatedScheduler:
    """Plans and acts when something has changed, and from time to time when nothing has."""

    def __init__(self, cluster: Cluster, policy: PolicySpec) -> None:
        self.cluster = cluster
        self.policy = policy
        self.cessions: dict[str, Cession] = {}
        self.passes = 0
        # False: no scheduler leads
        self.leads = True
        self._led_since = cluster.now
        self._picture = Picture(cluster)
        self._planned_version = -1
        self._due = 0.0
        self._wait_s = 0.0

    @property
    def now(self) -> float:
        """By the clock of who leads."""
        return self.cluster.now

    @property
    def led_since(self) -> float:
        return self._led_since

    def start(self) -> None:
        """From now on there is a pass when it is due."""
        self.cluster.clock.after(self.cluster.assumptions.pass_s, self._tick)

    def reconcile(self) -> Plan:
        """One pass."""
        self.passes += 1
        current = self._picture.take(self.cessions.values())
        current = replace(current, led_since=self.led_since)
        decision = plan(current, self.policy, self.now)
        if decision.faults:
            raise RuntimeError(f"the scheduler could not plan: {decision.faults}")
        for action in decision.actions:
            self.perform(action)
        return decision

    def lead(self, *, leads: bool) -> None:
        """Whether a scheduler leads from now on: another one, if none did before."""
        if leads and not self.leads:
            self._led_since = self.cluster.now
        self.leads = leads

    def _tick(self) -> None:
        """A pass after every change, and soon again while a Cession is open: later and later, up to
        `watch_s`, while that changes nothing."""
        assumptions = self.cluster.assumptions
        version = self.cluster.version
        if self.leads and (version != self._planned_version or self.cluster.now >= self._due):
            decision = self.reconcile()
            is_new = bool(decision.actions) or version != self._planned_version
            longer_s = min(2 * self._wait_s, assumptions.watch_s)
            self._wait_s = assumptions.pass_s if is_new else longer_s
            self._planned_version = version
            is_busy = decision.actions or any(c.open for c in self.cessions.values())
            self._due = self.cluster.now + (self._wait_s if is_busy else assumptions.quiet_s)
        self.cluster.clock.after(assumptions.pass_s, self._tick)

    # --- actions ----------------------------------------------------------------------------------
    def perform(self, action: Action) -> None:
        """One write."""
        match action:
            case OpenCession():
                self._open(action.cession)
            case UpdateCession():
                if action.name in self.cessions:
                    changed = self.cessions[action.name].model_copy(
                        update={"status": action.status}
                    )
                    self.cessions[action.name] = changed
            case AmendCession():
                if action.name in self.cessions:
                    changed = self.cessions[action.name].model_copy(update={"spec": action.spec})
                    self.cessions[action.name] = changed
            case DeleteCession():
                self.cessions.pop(action.name, None)
            case SetQueueingStrategy():
                queue = self.cluster.kueue.queues[action.queue]
                if str(queue.version) == action.version:
                    self.cluster.set_strategy(action.queue, action.strategy)
            case RequestSize():
                job = self.cluster.jobs.get(action.job_uid)
                if job:
                    self.cluster.request_size(job, action.size, action.cession)
            case ResizeJob():
                job = self.cluster.jobs.get(action.job_uid)
                if job and str(job.version) == action.version:
                    self.cluster.resize(job, action.size, shrinks=action.shrinks)
            case SetWorkloadActive():
                workload = self._workload(action.workload[1])
                if workload:
                    self.cluster.set_active(workload, active=action.active, cession=action.cession)
            case RequeueWorkload():
                workload = self._workload(action.workload[1])
                if workload:
                    self.cluster.requeue(workload, action.since)
            case CreateGuard() | JoinGuard() | DeleteGuard():
                self.cluster.change_guard(action)
            case SetPrivateQuota():
                queue = self.cluster.kueue.queues[action.queue]
                if str(queue.version) == action.version:
                    self.cluster.set_private_quota(queue, action)
            case RecordEvent() | RecordWorkloadEvent():
                pass
            case _:
                raise TypeError(
                    f"the simulator cannot perform {type(action).__name__}: add it to "
                    f"scheduler/simulate/simulated_scheduler.py"
                )

    def _open(self, cession: Cession) -> None:
        name = cession.metadata.name
        if name in self.cessions:
            raise RuntimeError(f"the scheduler opened Cession {name} twice")
        metadata = Meta(
            name=name,
            uid=f"cession-{name}",
            generation=1,
            creationTimestamp=rfc3339(self.cluster.now),
        )
        self.cessions[name] = cession.model_copy(update={"metadata": metadata})

    def _workload(self, name: str) -> Workload | None:
        for job in self.cluster.jobs.values():
            for workload in (job.workload, job.scale_up):
                if workload and workload.name == name:
                    return workload
        return None
