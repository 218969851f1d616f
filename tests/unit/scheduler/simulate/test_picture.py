"""The Snapshot of a simulated cluster."""

from elastic_runtime.contract import State
from scheduler.simulate.picture import KEY, Picture, status
from tests.builders.simulated import ASSUMPTIONS, cluster, job_spec, run


def test_it_shows_queues_jobs_and_what_waits() -> None:
    world = cluster()
    world.submit(job_spec("gpt", "research", 8, sizes=(4, 8)))
    world.submit(job_spec("claim", "vision", 8))
    run(world, 30)
    snapshot = Picture(world).take(())
    assert snapshot.quota.queues["research"].usage[KEY] == 4
    (claim,) = snapshot.pending
    assert (claim.name, claim.pod_sets[0].requested["nvidia.com/gpu"]) == ("claim", 8)
    (gpt,) = snapshot.admitted
    assert (gpt.size, gpt.desired_size, gpt.allowed_sizes) == (4, 8, (4, 8))
    assert gpt.runtime is not None
    assert (gpt.runtime.state, gpt.runtime.size) == (State.TRAINING, 4)


def test_a_queue_on_hold_makes_what_waits_in_it_ineligible() -> None:
    world = cluster()
    world.hold("vision", on_hold=True)
    world.submit(job_spec())
    (waiting,) = Picture(world).take(()).pending
    assert waiting.ineligible


def test_a_workload_that_is_not_active_is_ineligible() -> None:
    world = cluster()
    job = world.submit(job_spec())
    world.set_active(job.workload, active=False)
    (waiting,) = Picture(world).take(()).pending
    assert waiting.ineligible


def test_a_runtime_that_was_asked_shows_what_it_was_asked_for() -> None:
    world = cluster()
    job = world.submit(job_spec(sizes=(2, 4)))
    run(world, 30)
    world.request_size(job, 0, "c-1")
    asked = status(job, world.now, ASSUMPTIONS)
    assert (asked.wanted, asked.cession, asked.state) == (0, "c-1", State.STOPPING)
    run(world, 30)
    assert status(job, world.now, ASSUMPTIONS).ceded(0)
