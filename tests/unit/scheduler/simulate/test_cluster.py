"""Jobs of the simulated cluster: they start, train, shrink, grow, stop, come back and end."""

import pytest

from scheduler.actions import CreateGuard, DeleteGuard
from tests.builders.simulated import ASSUMPTIONS, STOCK, cluster, job_spec, run


def test_a_job_trains_when_its_pods_are_ready_and_ends_when_its_work_is_done() -> None:
    world = cluster()
    start = world.now
    job = world.submit(job_spec(duration=100))
    run(world, 5)
    assert (job.workload.reserved_since is not None, job.training) == (True, 0)
    run(world, 195)
    assert job.ended == pytest.approx(start + 110, abs=0.1)
    world.count()
    assert world.trained == pytest.approx(400, abs=1)
    assert world.used == pytest.approx(440, abs=1)


def test_a_job_that_is_stopped_comes_back_when_it_may_and_starts_from_its_checkpoint() -> None:
    world = cluster()
    job = world.submit(job_spec())
    run(world, 260)
    world.set_active(job.workload, active=False)
    run(world, 100)
    assert job.workload.reserved_since is None
    assert job.lost == pytest.approx(4 * 50, abs=1)
    world.set_active(job.workload, active=True)
    run(world, 20)
    assert job.training == 4
    # and the time to start again
    assert job.lost == pytest.approx(4 * 50 + 4 * ASSUMPTIONS.start_s, abs=1)


def test_the_quota_of_an_inactive_job_is_free_before_it_waits_again() -> None:
    """Seen on Kueue: its quota is free at once, QuotaReserved is false 0.8 to 3 s later."""
    world = cluster()
    job = world.submit(job_spec())
    run(world, 30)
    world.set_active(job.workload, active=False)
    assert world.kueue.queues["vision"].usage == 0
    assert job.workload.reserved_since is not None
    run(world, ASSUMPTIONS.eviction_s)
    assert job.workload.reserved_since is None


def test_an_elastic_job_cedes_after_its_step_and_then_shrinks_without_loss() -> None:
    world = cluster()
    job = world.submit(job_spec(sizes=(4, 8), accelerators=8))
    run(world, 20)
    world.resize(job, 8, shrinks=False)
    run(world, 20)
    assert job.training == 8
    world.request_size(job, 4, "cession")
    run(world, 1.5)
    assert (job.training, job.is_changing) == (8, True)
    run(world, 1)
    assert (job.training, job.is_changing) == (4, False)
    world.resize(job, 4, shrinks=True)
    assert (job.workload.count, job.lost) == (4, 0)
    assert world.kueue.queues["vision"].usage == 4


def test_an_elastic_job_that_is_asked_to_stop_saves_first() -> None:
    world = cluster()
    job = world.submit(job_spec(sizes=(4,)))
    run(world, 50)
    world.request_size(job, 0, "cession")
    run(world, 13)
    assert job.is_parked
    world.set_active(job.workload, active=False)
    assert job.lost == 0


def test_a_silent_runtime_is_asked_in_vain() -> None:
    world = cluster()
    job = world.submit(job_spec(sizes=(2, 4)))
    run(world, 20)
    job.answers = False
    world.request_size(job, 0, "cession")
    run(world, 60)
    assert job.training == 2


def test_a_scale_up_that_does_not_fit_waits_and_can_be_withdrawn() -> None:
    world = cluster(vision=4, research=0)
    job = world.submit(job_spec(sizes=(2, 8), accelerators=8))
    run(world, 20)
    world.resize(job, 8, shrinks=False)
    run(world, 20)
    assert job.scale_up is not None
    world.resize(job, 2, shrinks=False)
    assert job.scale_up is None
    assert not world.kueue.queues["vision"].parked


def test_stock_kueue_stops_the_borrower_whole() -> None:
    world = cluster(STOCK)
    borrower = world.submit(job_spec("borrower", "research", 8))
    run(world, 60)
    owner = world.submit(job_spec("owner", "vision", 4))
    run(world, 20)
    assert owner.training == 4
    assert borrower.training == 0
    assert borrower.lost == pytest.approx(8 * 50, abs=1)
    assert world.owed == [pytest.approx(ASSUMPTIONS.eviction_s, abs=0.2)]


def test_a_deleted_job_leaves_nothing_behind() -> None:
    world = cluster()
    jobs = [world.submit(job_spec(name)) for name in ("runs", "waits")]
    run(world, 5)
    for job in jobs:
        world.end(job)
    run(world, 5)
    assert not world.jobs
    assert world.kueue.queues["vision"].usage == 0
    assert not world.kueue.admitted


def test_each_guard_of_a_cession_ends_at_its_own_limit() -> None:
    world = cluster()
    create = CreateGuard("c-1", {("accelerator", "accelerator"): 4}, limit_s=120)
    world.change_guard(create)
    run(world, 60)
    world.change_guard(DeleteGuard("c-1"))
    world.change_guard(create)
    second = world.kueue.guards["c-1"]
    run(world, 119)
    assert second.is_admitted
    run(world, 2)
    assert not second.is_admitted


def test_an_edited_job_waits_with_its_new_size() -> None:
    world = cluster()
    world.submit(job_spec("runs", accelerators=8))
    waits = world.submit(job_spec("waits", accelerators=4))
    run(world, 5)
    world.edit(waits, 2)
    assert waits.workload.count == 2


def test_a_queue_on_hold_admits_nothing() -> None:
    world = cluster()
    world.hold("vision", on_hold=True)
    job = world.submit(job_spec())
    run(world, 5)
    assert job.workload.reserved_since is None
    world.hold("vision", on_hold=False)
    run(world, 5)
    assert job.workload.reserved_since is not None
