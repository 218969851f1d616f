"""A trace on the simulated cluster, as a ledger beside it would see it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from cede.api.kueue import Workload
from cede.api.policy import PolicySpec
from ledger.bookkeeper import Seen
from ledger.timeline import MAX_PAUSE, SECOND
from scheduler.simulate import objects
from scheduler.simulate.clock import Clock
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.objects import JobSpec, TeamQuota
from scheduler.simulate.replay import SETTINGS, Way, Window
from scheduler.simulate.simulated_scheduler import SimulatedScheduler
from tests.builders.ledger import Ledger, allocation, policy, seen_at, workload

PAUSE_S = MAX_PAUSE / SECOND / 2 - 2
"""Two of them are no gap."""
Known = tuple[float | None, int, bool]
"""What makes a Workload another object: since when it has quota, its pods, whether it is freed."""


class WatchedClock(Clock):
    """Calls `look` after the events of each moment, and when nothing happens for long."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.look = look

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self._wait(self._events[0][0])
            super().run(self._events[0][0])
            self.look()
        self._wait(until)
        super().run(until)
        self.look()

    def _wait(self, until: float) -> None:
        while until - self.now > PAUSE_S:
            super().run(self.now + PAUSE_S)
            self.look()


@dataclass
class LedgerReplay:
    """The books of one window of a trace."""

    teams: Sequence[TeamQuota]
    way: Way
    cluster: Cluster = field(init=False)
    scheduler: SimulatedScheduler = field(init=False)
    ledger: Ledger = field(init=False)
    looks: int = 0
    # accelerator-seconds by the cluster's own count, when the books were last written
    used: float = 0.0
    # when the books begin
    started: int = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.teams, SETTINGS[self.way])
        self.cluster.clock = WatchedClock(self._look)
        self.cluster.count()
        self.scheduler = SimulatedScheduler(self.cluster, PolicySpec())
        self.started = self._now
        self.ledger = Ledger(self.started)
        self._policy = policy(self.capacity)
        self._allocations = [allocation(team.name, team.nominal) for team in self.teams]
        self._known: dict[str, tuple[Known, Workload]] = {}
        self._version = (-1, -1)
        self._looked = 0

    @property
    def capacity(self) -> int:
        return sum(team.nominal for team in self.teams)

    @property
    def _now(self) -> int:
        return round(self.cluster.now * SECOND)

    def run(self, jobs: Iterable[JobSpec], window: Window) -> None:
        """The jobs of the window, and those that ran before and run in it still."""
        self._look()
        begin = self.cluster.now
        for spec in jobs:
            submit = max(spec.submit, window.start)
            left = spec.submit + spec.duration - submit
            if submit < window.end and left > 0:
                rest = replace(spec, duration=left, sizes=spec.sizes if self._is_elastic else ())
                event = partial(self._submit, rest)
                self.cluster.clock.at_time(begin + submit - window.start, event)
        if self._is_elastic:
            self.scheduler.start()
        self.cluster.clock.run(begin + window.end - window.start)

    @property
    def _is_elastic(self) -> bool:
        return self.way is Way.CEDE

    def _submit(self, spec: JobSpec) -> None:
        self.cluster.submit(spec)

    def _look(self) -> None:
        """If something has changed, or for too long nothing has."""
        version = (self.cluster.version, self.scheduler.passes)
        if version == self._version and self._now - self._looked < (PAUSE_S - 1) * SECOND:
            return
        self._version = version
        self._looked = self._now
        self.looks += 1
        if self.ledger.look(self._seen()):
            self.cluster.count()
            self.used = self.cluster.used

    def _seen(self) -> Seen:
        return seen_at(
            self._now,
            cluster_policy=self._policy,
            allocations=self._allocations,
            workloads=[self._workload(entry) for entry in self._workloads()],
            cessions=list(self.scheduler.cessions.values()),
        )

    def _workloads(self) -> Iterable[objects.Workload]:
        for job in self.cluster.jobs.values():
            yield job.workload
            if job.scale_up:
                yield job.scale_up

    def _workload(self, entry: objects.Workload) -> Workload:
        """The same object while nothing of it changes."""
        state = (entry.reserved_since, entry.count, entry.is_freed)
        known = self._known.get(entry.name)
        if not known or known[0] != state:
            since = round((entry.reserved_since or 0) * SECOND)
            made = workload(
                entry.name,
                entry.job.spec.team,
                entry.count,
                since=since,
                waits=entry.reserved_since is None or entry.is_freed,
                job=entry.job.spec.name,
                replaces=entry.replaces.name if entry.replaces else "",
                priority_class=str(entry.job.spec.priority),
            )
            known = (state, made)
            self._known[entry.name] = known
        return known[1]
