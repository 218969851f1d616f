"""The leader dies between any two writes, and the next one ends in the same state."""

from functools import partial

import pytest

from cede.api.policy import PolicySpec, Preemption
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Settings
from scheduler.simulate.objects import JobSpec, TeamQuota
from tests.harness.faulty_scheduler import FaultyScheduler
from tests.harness.world_promises import Promises

POLICY = PolicySpec(preemption=Preemption(graceSeconds=10, minRuntimeSeconds=0))
LONG = 100_000.0
END_S = 240.0


def job(
    name: str,
    team: str,
    accelerators: int,
    submit: float,
    priority: int = 50,
    sizes: tuple[int, ...] = (),
) -> JobSpec:
    return JobSpec(name, team, submit, accelerators, LONG, priority, sizes)


WORLDS = {
    "a shrink": [
        job("gpt", "research", 8, 0.0, sizes=(2, 4, 6, 8)),
        job("claim", "vision", 4, 10.0),
    ],
    "a shrink and a stop, behind a job that has no chance": [
        job("gpt", "research", 6, 0.0, sizes=(4, 6)),
        job("rigid", "research", 2, 0.0, priority=10),
        job("hopeless", "vision", 8, 9.0, priority=90),
        job("claim", "vision", 4, 10.0),
    ],
    "stops in the own team, all at once": [
        job("neighbor", "vision", 4, 0.0),
        job("low", "research", 2, 0.0, priority=10),
        job("lower", "research", 2, 0.0, priority=10),
        job("claim", "research", 4, 10.0, priority=90),
    ],
    "growth into what the team owns": [
        job("gpt", "vision", 4, 0.0, sizes=(1, 2, 4)),
        job("other", "research", 4, 0.0),
        job("borrower", "research", 3, 0.1),
    ],
}


class World:
    """One of WORLDS, run to its end."""

    def __init__(self, specs: list[JobSpec]) -> None:
        teams = [TeamQuota("vision", 4), TeamQuota("research", 4)]
        assumptions = Assumptions(start_s=1.0, eviction_s=1.0, step_s=0.5, save_s=1.0)
        self.cluster = Cluster(teams, Settings(), assumptions)
        self.scheduler = FaultyScheduler(self.cluster, POLICY)
        self.promises = Promises(self.scheduler)
        self.writes = 0
        self.scheduler.watchers.append(self._count)
        for spec in specs:
            self.cluster.clock.after(spec.submit, partial(self._submit, spec))

    def run(self) -> dict[str, int]:
        """The jobs that run at the end, and how many pods each has."""
        self.scheduler.start()
        self.cluster.clock.run(self.cluster.now + END_S)
        self.promises.check_the_end()
        return {w.job.spec.name: w.count for w in self.cluster.kueue.admitted.values()}

    def _count(self, _: object) -> None:
        self.writes += 1

    def _submit(self, spec: JobSpec) -> None:
        self.cluster.submit(spec)


@pytest.mark.parametrize("gap_s", [0.0, 20.0], ids=["the next leads at once", "after 20 s"])
@pytest.mark.parametrize("name", WORLDS)
def test_wherever_a_leader_dies_the_end_is_the_same(name: str, gap_s: float) -> None:
    """Nobody stays inactive, no queue strict, no Cession open, no quota is exceeded at any time,
    and the same jobs run."""
    undisturbed = World(WORLDS[name])
    end = undisturbed.run()
    assert not undisturbed.promises.violations
    assert undisturbed.writes
    for writes in range(undisturbed.writes):
        world = World(WORLDS[name])
        world.scheduler.writes_left = writes
        world.scheduler.gap_s = gap_s
        assert world.run() == end, writes
        assert not world.promises.violations, writes
