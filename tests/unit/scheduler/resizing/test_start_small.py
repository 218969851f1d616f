"""A job that had grown before it was stopped starts with the fewest pods, on the simulated cluster.

Vision and research own four each. `gpt` of vision, with two to four pods, was evicted while nobody
led, and jobs of research have what it had.
"""

import pytest

from cede.api.policy import PolicySpec, Preemption
from scheduler.resizing.upkeep import start_small
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.objects import Job
from scheduler.simulate.picture import Picture
from tests.builders.simulated import cluster, job_spec, run
from tests.harness.faulty_scheduler import FaultyScheduler

POLICY = PolicySpec(preemption=Preemption(minRuntimeSeconds=0, growCooldownSeconds=10))


@pytest.fixture
def world() -> Cluster:
    return cluster()


@pytest.fixture
def gpt(world: Cluster) -> Job:
    """It has grown."""
    job = world.submit(job_spec("gpt", sizes=(2, 3, 4)))
    run(world, 20)
    world.resize(job, 4, shrinks=False)
    run(world, 20)
    assert job.training == 4
    return job


@pytest.fixture
def borrowers(world: Cluster, gpt: Job) -> list[Job]:
    world.evict(gpt.workload)
    world.hold("vision", on_hold=True)
    jobs = [world.submit(job_spec(name, "research", 2)) for name in "abcd"]
    run(world, 20)
    world.hold("vision", on_hold=False)
    assert [job.training for job in (gpt, *jobs)] == [0, 2, 2, 2, 2]
    return jobs


def scheduler_of(world: Cluster) -> FaultyScheduler:
    scheduler = FaultyScheduler(world, POLICY)
    scheduler.start()
    return scheduler


def test_the_preemptor_of_an_open_cession_starts_small_and_takes_no_more(
    world: Cluster, gpt: Job, borrowers: list[Job]
) -> None:
    """Its Cession is opened for all the pods with which it waits, in the pass that makes it
    smaller."""
    scheduler = scheduler_of(world)
    run(world, 10)
    (cession,) = scheduler.cessions.values()
    assert (len(cession.spec.targets), gpt.workload.count) == (2, 2)
    assert gpt.workload.reserved_since is not None
    assert sum(len(job.stops) for job in borrowers) == 1


def test_a_job_that_kueue_admits_in_that_moment_starts_small_and_grows(
    world: Cluster, gpt: Job
) -> None:
    """It starts with a part of its quota; the rest is free again, and it grows without a cooldown.
    The Job has the version that was read: Kueue has changed its Workload only."""
    world.evict(gpt.workload)
    run(world, world.assumptions.eviction_s)
    (action,) = start_small(Picture(world).take(()))
    run(world, 1)
    assert gpt.workload.reserved_since is not None
    scheduler = scheduler_of(world)
    scheduler.perform(action)
    assert world.kueue.queues["vision"].usage == 2
    run(world, world.assumptions.start_s)
    assert gpt.training == 2
    run(world, 2 * world.assumptions.start_s)
    assert gpt.training == 4


def test_a_job_that_nobody_may_resize_claims_what_it_waits_for(
    world: Cluster, gpt: Job, borrowers: list[Job]
) -> None:
    """The server refuses the resize in every pass."""
    scheduler = scheduler_of(world)
    scheduler.unresizable.add(gpt.uid)
    run(world, 25)
    assert gpt.training == 4
    assert sum(len(job.stops) for job in borrowers) == 2
