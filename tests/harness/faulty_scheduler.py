"""The scheduler on the model of Kueue, with faults: it dies between two writes, its clock is wrong,
and the server refuses resizes."""

from collections.abc import Callable

from cede.api.policy import PolicySpec
from scheduler.actions import Action, ResizeJob
from scheduler.leader_clock import LeaderClock
from scheduler.plan import Plan
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.simulated_scheduler import SimulatedScheduler

FOR_EVER = 1 << 30


class FaultyScheduler(SimulatedScheduler):
    """Its replicas lead one after the other, each with a clock of its own."""

    def __init__(self, cluster: Cluster, policy: PolicySpec) -> None:
        super().__init__(cluster, policy)
        # by how much the clock of the leader's machine is ahead
        self.clock_error_s = 0.0
        # uids of Jobs that the server lets nobody resize
        self.unresizable: set[str] = set()
        # uids of Jobs whose growth Kueue never admits, as where nodes are fragmented
        self.ungrowable: set[str] = set()
        # after so many writes the leader dies, and another one leads `gap_s` later
        self.writes_left = FOR_EVER
        self.gap_s = 0.0
        # called before each write
        self.watchers: list[Callable[[Action], None]] = []
        self._clock = self._new_clock()

    @property
    def now(self) -> float:
        return self._clock.now()

    @property
    def led_since(self) -> float:
        return self._clock.led_since

    def lead(self, *, leads: bool) -> None:
        if leads and not self.leads:
            self._clock = self._new_clock()
        super().lead(leads=leads)

    def reconcile(self) -> Plan:
        self._clock.note_pass()
        decision = super().reconcile()
        if all(cession.ended for cession in self.cessions.values()):
            self._clock.adjust()
        return decision

    def perform(self, action: Action) -> None:
        if not self.leads:
            return
        if not self.writes_left:
            self.die()
            return
        self.writes_left -= 1
        for watch in tuple(self.watchers):
            watch(action)
        if not (isinstance(action, ResizeJob) and action.job_uid in self.unresizable):
            super().perform(action)
            self._pass_over_growth()

    def _pass_over_growth(self) -> None:
        """Kueue does not look at these slices any more."""
        for uid in self.ungrowable & self.cluster.jobs.keys():
            scale_up = self.cluster.jobs[uid].scale_up
            if scale_up:
                self.cluster.kueue.withdraw(scale_up)

    def die(self) -> None:
        """Nobody leads for `gap_s`."""
        self.writes_left = FOR_EVER
        self.lead(leads=False)
        self.cluster.clock.after(self.gap_s, lambda: self.lead(leads=True))

    def _new_clock(self) -> LeaderClock:
        clock = self.cluster.clock
        return LeaderClock(lambda: clock.now + self.clock_error_s, lambda: clock.now)
