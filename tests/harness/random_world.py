"""Random clusters of a few minutes, scheduled by Cede on the model of Kueue.

`python -m tests.harness.random_world 0 1000` tries these seeds and prints what does not hold.
"""

import random
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial

from cede.api.policy import PolicySpec, Preemption
from cede.api.reasons import CessionPhase
from scheduler.actions import Action, UpdateCession
from scheduler.controller import QUIET_INTERVAL_S
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Settings
from scheduler.simulate.objects import Job, JobSpec, TeamQuota
from tests.harness.faulty_scheduler import FaultyScheduler
from tests.harness.world_promises import Promises

ACTIVE_S = 300.0
"""Users and faults do something for so long."""
SETTLE_S = 300.0
"""Then jobs only run and end."""
LONG_GAP_S = 600.0
CLOCK_ERROR_S = 3600.0
CLASSES = (10, 50, 90)


@dataclass
class World:
    """One random cluster, and what did not hold in it."""

    seed: int
    cluster: Cluster = field(init=False)
    scheduler: FaultyScheduler = field(init=False)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311
        count = self.random.randint(3, 6)
        teams = [self._team(index) for index in range(count)]
        settings = Settings(fair_sharing=self.random.random() < 0.7)
        assumptions = Assumptions(
            start_s=self.random.choice((1.0, 5.0)),
            eviction_s=self.random.choice((1.0, 3.0)),
            checkpoint_s=60.0,
            step_s=self.random.choice((0.5, 2.0)),
            save_s=3.0,
            quiet_s=QUIET_INTERVAL_S,
        )
        self.cluster = Cluster(teams, settings, assumptions)
        preemption = Preemption(
            graceSeconds=20,
            minRuntimeSeconds=self.random.choice((0, 10)),
            growCooldownSeconds=20,
        )
        self.scheduler = FaultyScheduler(self.cluster, PolicySpec(preemption=preemption))
        self.jobs: list[Job] = []
        self.start = self.cluster.now
        # faults do not change what users do
        self.fate = random.Random(f"fate of {self.seed}")  # noqa: S311
        self.fate_of_growth = random.Random(f"fate of growth in {self.seed}")  # noqa: S311
        self.long_gap_in: CessionPhase | None = None
        self.promises = Promises(self.scheduler)

    def run(self) -> list[str]:
        """The violations, each with the time and the objects that it is about."""
        self._plan_users()
        self._plan_faults()
        self._plan_rare_faults()
        self.scheduler.start()
        gap_s = LONG_GAP_S if self.long_gap_in else 0.0
        self.cluster.clock.run(self.start + ACTIVE_S + gap_s + SETTLE_S)
        self.promises.check_the_end()
        return self.promises.violations

    # --- what happens -----------------------------------------------------------------------------
    def _team(self, index: int) -> TeamQuota:
        return TeamQuota(
            name="abcdef"[index],
            nominal=self.random.choice((0, 2, 4, 4, 8)) if index else 4,
            borrowing_limit=self.random.choice((None, None, None, 4)),
            lending_limit=self.random.choice((None, None, None, 2)),
        )

    def _plan_users(self) -> None:
        for number in range(self.random.randint(8, 30)):
            spec = self._spec(number)
            self.cluster.clock.at_time(self.start + spec.submit, partial(self._submit, spec))
        for _ in range(self.random.randint(0, 5)):
            time = self.start + self.random.uniform(5, ACTIVE_S)
            self.cluster.clock.at_time(time, self._cancel_or_edit)

    def _spec(self, number: int) -> JobSpec:
        count = self.random.choice((1, 1, 2, 2, 3, 4, 4, 6, 8))
        if self.random.random() < 0.05:
            # more than there is: it can never start
            count = 100
        smallest = self.random.randint(1, count)
        elastic = count < 100 and self.random.random() < 0.5
        # a few submit in the same second
        moment = self.random.choice((0, self.random.uniform(0, ACTIVE_S)))
        return JobSpec(
            name=f"j{number}",
            team=self.random.choice(list(self.cluster.kueue.queues)),
            submit=moment,
            accelerators=count,
            duration=self.random.choice((20.0, 60.0, 200.0, 2000.0)),
            priority=self.random.choice(CLASSES),
            sizes=tuple(range(smallest, count + 1)) if elastic else (),
        )

    def _plan_faults(self) -> None:
        for _ in range(self.random.randint(0, 2)):
            begin = self.random.uniform(0, ACTIVE_S)
            end = begin + self.random.choice((3.0, 15.0, 90.0))
            self.cluster.clock.at_time(self.start + begin, lambda: self._lead(False))
            self.cluster.clock.at_time(self.start + end, lambda: self._lead(True))
        # the end of one gap may lie in another one
        self.cluster.clock.at_time(self.start + ACTIVE_S, lambda: self._lead(True))
        if self.random.random() < 0.3:
            self._plan_hold()
        for _ in range(self.random.randint(0, 3)):
            time = self.start + self.random.uniform(0, ACTIVE_S)
            self.cluster.clock.at_time(time, self._lose_runtime)

    def _plan_hold(self) -> None:
        name = self.random.choice(list(self.cluster.kueue.queues))
        begin = self.random.uniform(0, ACTIVE_S)
        self.cluster.clock.at_time(
            self.start + begin, lambda: self.cluster.hold(name, on_hold=True)
        )
        if self.random.random() < 0.5:
            end = self.random.uniform(begin, ACTIVE_S)
            self.cluster.clock.at_time(
                self.start + end, lambda: self.cluster.hold(name, on_hold=False)
            )

    def _plan_rare_faults(self) -> None:
        """In half of the worlds: clocks that jump, refused resizes, replicas that die between two
        writes, or nobody who leads for ten minutes from some phase of a Cession on."""
        fault = self.fate.choice((None, None, None, None, "clock", "refusal", "death", "gap"))
        for _ in range(self.fate.randint(1, 3)):
            time = self.start + self.fate.uniform(0, ACTIVE_S)
            if fault == "clock":
                error_s = self.fate.choice((-CLOCK_ERROR_S, 0.0, CLOCK_ERROR_S))
                self.cluster.clock.at_time(time, partial(self._set_clock, error_s))
            elif fault == "refusal":
                self.cluster.clock.at_time(time, self._refuse_resizes)
            elif fault == "death":
                writes = self.fate.randint(0, 6)
                self.cluster.clock.at_time(time, partial(self._die_after, writes))
        if fault == "gap":
            self.long_gap_in = self.fate.choice(list(CessionPhase)[:4])
            self.scheduler.watchers.append(self._watch_for_gap)

    def _set_clock(self, error_s: float) -> None:
        self._note(f"the leader's clock is {error_s:.0f} s ahead")
        self.scheduler.clock_error_s = error_s

    def _refuse_resizes(self) -> None:
        jobs = [job for job in self.jobs if job.ended is None and job.is_elastic]
        if jobs:
            job = self.fate.choice(jobs)
            self._note(f"{job.spec.name} cannot be resized")
            self.scheduler.unresizable.add(job.uid)

    def _die_after(self, writes: int) -> None:
        self.scheduler.writes_left = writes
        self.scheduler.gap_s = self.fate.choice((0.0, 3.0, 20.0))

    def _watch_for_gap(self, action: Action) -> None:
        """Nobody leads once the first Cession is in that phase, if users are still there."""
        if self.cluster.now > self.start + ACTIVE_S:
            self.scheduler.watchers.remove(self._watch_for_gap)
        elif isinstance(action, UpdateCession) and action.status.phase is self.long_gap_in:
            self._note(f"nobody leads from {action.status.phase} on")
            self.scheduler.writes_left = 1
            self.scheduler.gap_s = LONG_GAP_S
            self.scheduler.watchers.remove(self._watch_for_gap)

    def _submit(self, spec: JobSpec) -> None:
        self._note(f"{spec.name} of {spec.team} asks {spec.accelerators} {spec.sizes}")
        job = self.cluster.submit(spec)
        self.jobs.append(job)
        if self.fate_of_growth.random() < 0.1:
            self.scheduler.ungrowable.add(job.uid)

    def _cancel_or_edit(self) -> None:
        jobs = [job for job in self.jobs if job.ended is None]
        if not jobs:
            return
        job = self.random.choice(jobs)
        if job.workload.reserved_since is None and self.random.random() < 0.5:
            self._note(f"{job.spec.name} is edited")
            self.cluster.edit(job, self.random.choice((1, 2, 8)))
        else:
            self._note(f"{job.spec.name} is deleted")
            self.cluster.end(job)

    def _lead(self, leads: bool) -> None:
        self._note(f"scheduler leads: {leads}")
        self.scheduler.lead(leads=leads)

    def _lose_runtime(self) -> None:
        jobs = [job for job in self.jobs if job.ended is None and job.is_elastic]
        if jobs:
            job = self.random.choice(jobs)
            self._note(f"{job.spec.name} answers no more")
            job.answers = False

    def _note(self, text: str) -> None:
        self.log.append(f"{self.cluster.now - self.start:6.1f} {text}")


def main() -> None:
    """Exits with 1 if a promise does not hold, or a plan raises."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    kinds: dict[str, list[int]] = defaultdict(list)
    stops = Counter[str]()
    for seed in range(first, last):
        world = World(seed)
        for kind in {violation.split(":")[0] for violation in _violations(world)}:
            kinds[kind].append(seed)
        stops["stops"] += world.promises.stops
        stops["stops in the 10 minutes after another"] += world.promises.stops_again
    print(f"{last - first} worlds, {', '.join(f'{n} {what}' for what, n in stops.items())}")
    for kind, seeds in sorted(kinds.items()):
        print(f"{len(seeds):6} {kind}: seeds {seeds[:12]}")
    if kinds:
        sys.exit(1)


def _violations(world: World) -> list[str]:
    try:
        return world.run()
    except Exception as error:  # noqa: BLE001
        return [f"raised {type(error).__name__}: {error}"]


if __name__ == "__main__":
    main()
