"""Random clusters of a few minutes, scheduled by Cede on the model of Kueue.

`python -m tests.harness.random_world 0 1000` tries these seeds and prints what does not hold.
"""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from cede.api.policy import PolicySpec, Preemption
from scheduler.quota.cohort import STRICT_FIFO
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Settings
from scheduler.simulate.objects import Job, JobSpec, TeamQuota, Workload
from scheduler.simulate.simulated_scheduler import SimulatedScheduler

ACTIVE_S = 300.0
"""Users and faults do something for so long."""
SETTLE_S = 300.0
"""Then jobs only run and end."""
PATIENCE_S = 120.0
"""What was begun earlier than this before the end must have ended."""
CLASSES = (10, 50, 90)


@dataclass
class World:
    """One random cluster, and what did not hold in it."""

    seed: int
    cluster: Cluster = field(init=False)
    scheduler: SimulatedScheduler = field(init=False)
    violations: list[str] = field(default_factory=list)
    # by Workload: since when it waits although its team's own quota covers it
    rightful_since: dict[str, float] = field(default_factory=dict)
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
        )
        self.cluster = Cluster(teams, settings, assumptions)
        preemption = Preemption(
            graceSeconds=20,
            minRuntimeSeconds=self.random.choice((0, 10)),
            growCooldownSeconds=20,
        )
        self.scheduler = SimulatedScheduler(self.cluster, PolicySpec(preemption=preemption))
        self.jobs: list[Job] = []
        self.start = self.cluster.now

    def run(self) -> list[str]:
        """The violations, each with the time and the objects that it is about."""
        self._plan_users()
        self._plan_faults()
        self.scheduler.start()
        self.cluster.clock.after(1.0, self._check)
        self.cluster.clock.run(self.start + ACTIVE_S + SETTLE_S)
        self.violations += self._at_the_end()
        return self.violations

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

    def _submit(self, spec: JobSpec) -> None:
        self._note(f"{spec.name} of {spec.team} asks {spec.accelerators} {spec.sizes}")
        self.jobs.append(self.cluster.submit(spec))

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

    # --- what must hold ---------------------------------------------------------------------------
    def _check(self) -> None:
        """Each second."""
        quota = self.cluster.kueue.quota()
        if quota.over():
            self._violate("quota over", f"by {quota.over()}")
        rightful = {workload.name for workload in self._rightful()}
        for name in rightful:
            self.rightful_since.setdefault(name, self.cluster.now)
        for name in set(self.rightful_since) - rightful:
            del self.rightful_since[name]
        self.cluster.clock.after(1.0, self._check)

    def _rightful(self) -> Iterator[Workload]:
        """The first of each queue that its own quota would cover, while others borrow; and those
        that simply fit."""
        quota = self.cluster.kueue.quota()
        done = set[str]()
        for workload in self._waiting():
            name = workload.job.spec.team
            queue = self.cluster.kueue.queues[name]
            if name in done or queue.on_hold or not workload.active:
                continue
            others_borrow = any(quota.borrows(other) for other in quota.queues if other != name)
            is_owed = others_borrow and not quota.borrows(name, workload.added)
            if is_owed or workload.added <= quota.available(name):
                done.add(name)
                yield workload

    def _waiting(self) -> list[Workload]:
        jobs = self.cluster.jobs.values()
        waiting = [job.workload for job in jobs if job.workload.reserved_since is None]
        return sorted(waiting, key=lambda w: (-w.job.spec.priority, w.created, w.uid))

    def _at_the_end(self) -> Iterator[str]:
        now = self.cluster.now
        cessions = self.scheduler.cessions.values()
        for cession in cessions:
            if cession.open and now - cession.metadata.created > PATIENCE_S:
                yield f"Cession open: {cession.metadata.name} is {cession.status.phase}"
        preemptors = Counter(cession.spec.preemptor.uid for cession in cessions)
        for uid, count in preemptors.items():
            if count > 2:
                yield f"many Cessions: {uid} has {count}"
        for job in self.jobs:
            if len(job.stops) > 1:
                times = [f"{time - self.start:.0f}" for time in job.stops]
                yield f"stopped twice: {job.spec.name} at {times}"
        opened_for = {c.spec.preemptor.queue for c in cessions if c.open}
        for queue in self.cluster.kueue.queues.values():
            if queue.strategy == STRICT_FIFO and queue.name not in opened_for:
                yield f"StrictFIFO left: {queue.name}"
        opened = {cession.metadata.name for cession in cessions if cession.open}
        for job in self.cluster.jobs.values():
            if not job.workload.active and job.workload.stopped_for not in opened:
                yield f"left inactive: {job.spec.name}"
        for name, since in self.rightful_since.items():
            if now - since > PATIENCE_S:
                yield f"rightful waits: {name} for {now - since:.0f} s"

    def _violate(self, kind: str, text: str) -> None:
        violation = f"{kind}: {text}"
        if violation not in self.violations:
            self._note(violation)
            self.violations.append(violation)


KEPT = ("quota over", "StrictFIFO left", "left inactive", "Cession open", "rightful waits")
"""What must hold in every world, besides that no plan raises."""


def main() -> None:
    """Exits with 1 if something of KEPT does not hold, or a plan raises."""
    first, last = int(sys.argv[1]), int(sys.argv[2])
    kinds: dict[str, list[int]] = defaultdict(list)
    for seed in range(first, last):
        for kind in {violation.split(":")[0] for violation in _violations(seed)}:
            kinds[kind].append(seed)
    print(f"{last - first} worlds")
    for kind, seeds in sorted(kinds.items()):
        print(f"{len(seeds):6} {kind}: seeds {seeds[:12]}")
    if any(kind.startswith((*KEPT, "raised")) for kind in kinds):
        sys.exit(1)


def _violations(seed: int) -> list[str]:
    try:
        return World(seed).run()
    except Exception as error:  # noqa: BLE001
        return [f"raised {type(error).__name__}: {error}"]


if __name__ == "__main__":
    main()
