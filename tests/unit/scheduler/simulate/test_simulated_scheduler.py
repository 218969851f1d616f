"""Cede's scheduler on the simulated cluster."""

from cede.api.policy import PolicySpec, Preemption
from cede.api.reasons import CessionPhase
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.simulated_scheduler import SimulatedScheduler
from tests.builders.simulated import cluster, job_spec, run


def scheduler_of(world: Cluster) -> SimulatedScheduler:
    preemption = Preemption(minRuntimeSeconds=0, growCooldownSeconds=10)
    scheduler = SimulatedScheduler(world, PolicySpec(preemption=preemption))
    scheduler.start()
    return scheduler


def test_a_borrower_grows_and_shrinks_for_the_owner_without_loss() -> None:
    world = cluster()
    scheduler = scheduler_of(world)
    gpt = world.submit(job_spec("gpt", "research", 8, sizes=tuple(range(2, 9))))
    run(world, 100)
    assert gpt.training == 8
    claim = world.submit(job_spec("claim", "vision", 4))
    run(world, 20)
    assert (claim.training, gpt.training) == (4, 4)
    assert (gpt.lost, gpt.stops) == (0, [])
    (cession,) = scheduler.cessions.values()
    assert cession.status.phase in (CessionPhase.ADMITTED, CessionPhase.COMPLETED)


def test_an_elastic_job_that_was_stopped_waits_at_its_smallest_size() -> None:
    """It trained on more than its team owns, and others have borrowed since."""
    world = cluster()
    scheduler_of(world)
    gpt = world.submit(job_spec("gpt", "research", 8, sizes=tuple(range(2, 9))))
    run(world, 100)
    assert gpt.training == 8
    world.evict(gpt.workload)
    borrower = world.submit(job_spec("borrower", "vision", 6, priority=100))
    run(world, 5)
    assert (borrower.workload.reserved_since is not None, gpt.ready) == (True, 0)
    run(world, 60)
    assert gpt.training >= 2


def test_nothing_happens_while_no_scheduler_leads() -> None:
    world = cluster()
    scheduler = scheduler_of(world)
    scheduler.leads = False
    world.submit(job_spec("gpt", "research", 8))
    run(world, 60)
    world.submit(job_spec("claim", "vision", 4))
    run(world, 60)
    assert not scheduler.cessions
    scheduler.leads = True
    run(world, 60)
    assert scheduler.cessions


def test_passes_are_rare_while_nothing_changes() -> None:
    world = cluster()
    scheduler = scheduler_of(world)
    world.submit(job_spec(duration=10_000))
    run(world, 100)
    passes = scheduler.passes
    run(world, 100)
    assert scheduler.passes - passes <= 100 / world.assumptions.quiet_s + 1


def test_every_growth_of_a_job_has_a_cession_of_its_own() -> None:
    """Cessions are named for the job and the first characters of the Workload's uid."""
    world = cluster()
    scheduler = scheduler_of(world)
    name = "a-name-of-eight-characters-and-more"
    owner = world.submit(job_spec(name, "vision", 4, sizes=(1, 2, 3, 4), duration=9000))
    borrower = world.submit(job_spec("gpt", "research", 8, sizes=tuple(range(1, 9))))
    for seconds in (40, 100, 100, 100):
        run(world, seconds)
        world.resize(owner, 2, shrinks=True)
    run(world, 200)
    assert owner.training == 4
    assert borrower.stops == []
    names = [cession.metadata.name for cession in scheduler.cessions.values()]
    assert len(names) > 1, names


def test_an_owner_behind_a_hopeless_job_gets_its_own_quota_with_one_cession() -> None:
    """Its team owns four. Before it waits a job of six; borrowers wait in another queue, and take
    what is free."""
    world = cluster(vision=4, research=0, speech=0)
    scheduler = scheduler_of(world)
    for number in range(4):
        world.submit(job_spec(f"held-{number}", "research", 1, duration=10_000))
    run(world, 60)
    hopeless = world.submit(job_spec("hopeless", "vision", 6))
    run(world, 1)
    claim = world.submit(job_spec("claim", "vision", 4, duration=10_000))
    for number in range(6):
        world.submit(job_spec(f"waits-{number}", "speech", 1, duration=10_000, priority=90))
    run(world, 3600)
    assert claim.training == 4
    assert not hopeless.first_admitted
    assert hopeless.workload.active
    claimed = [c for c in scheduler.cessions.values() if c.spec.preemptor.job == "claim"]
    assert len(claimed) == 1
    assert max(len(job.stops) for job in world.jobs.values()) == 1
