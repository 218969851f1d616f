"""Random pending jobs: what counts as admitted is what the model of Kueue's cycles admits."""

import random

from scheduler.preemption.admissions import after_admissions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Kueue, Settings
from scheduler.simulate.kueue_cycle import run_cycle
from scheduler.simulate.objects import JobSpec, TeamQuota
from scheduler.simulate.picture import KEY, Picture

WORLDS = 200
MAX_CYCLES = 100


def world(seed: int) -> Cluster:
    """An idle cluster, and jobs that wait: some fit into no queue, and some queues are strict."""
    chance = random.Random(seed)  # noqa: S311
    teams = [TeamQuota("team-0", 4)]
    teams += [TeamQuota(f"team-{n}", chance.choice((0, 2, 4))) for n in range(1, 4)]
    cluster = Cluster(teams, Settings(fair_sharing=chance.random() < 0.5))
    for queue in cluster.kueue.queues.values():
        queue.strategy = chance.choice(("StrictFIFO", "BestEffortFIFO"))
    for number in range(chance.randint(2, 10)):
        team = chance.choice(teams).name
        size, priority = chance.choice((1, 2, 3, 9)), chance.choice((10, 50, 90))
        cluster.submit(JobSpec(f"job-{number}", team, 0.0, size, 1000.0, priority, ()))
    return cluster


def is_reserving(kueue: Kueue) -> bool:
    """Whether Kueue keeps capacity for a head, which is not counted as admitted."""
    return any(
        workload.added <= queue.quota.nominal
        for queue in kueue.queues.values()
        for workload in (*queue.heap.values(), *queue.parked.values())
    )


def test_what_counts_as_admitted_is_what_kueue_admits() -> None:
    compared = 0
    for seed in range(WORLDS):
        cluster = world(seed)
        kueue = cluster.kueue
        picture = Picture(cluster).take(())
        after = after_admissions(picture, fair_sharing=kueue.settings.fair_sharing)
        for _ in range(MAX_CYCLES):
            run_cycle(kueue, cluster.now)
        if not is_reserving(kueue):
            compared += 1
            ours = {name: queue.usage[KEY] for name, queue in after.quota.queues.items()}
            assert ours == {name: queue.usage for name, queue in kueue.queues.items()}, seed
    assert compared > WORLDS / 2
