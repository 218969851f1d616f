"""The model's queues: heads, parking, and the batch that wakes what is parked."""

from scheduler.quota.cohort import STRICT_FIFO
from scheduler.simulate.kueue import BATCH_S, Kueue, Settings
from scheduler.simulate.kueue_cycle import run_cycle
from tests.builders.simulated import admit, teams, workload


def kueue_of_two() -> Kueue:
    return Kueue(teams(vision=4, research=4), Settings())


def names_of_heads(kueue: Kueue) -> set[str]:
    return {head.name for head in kueue.pop_heads()}


def test_the_head_has_the_highest_priority_then_the_greatest_age() -> None:
    kueue = kueue_of_two()
    kueue.submit(workload("young", created=2))
    kueue.submit(workload("old", created=1))
    kueue.submit(workload("urgent", created=3, priority=90))
    assert [names_of_heads(kueue) for _ in range(3)] == [{"urgent"}, {"old"}, {"young"}]


def test_each_queue_has_one_head_and_none_while_it_is_on_hold() -> None:
    kueue = kueue_of_two()
    kueue.submit(workload("a"))
    kueue.submit(workload("b", "research"))
    kueue.queues["research"].on_hold = True
    assert names_of_heads(kueue) == {"a"}


def test_what_does_not_fit_is_parked_with_all_equal_requests_until_the_batch() -> None:
    kueue = kueue_of_two()
    first = workload("first", count=9)
    kueue.submit(workload("equal", count=9, created=1))
    kueue.submit(workload("smaller", count=2, created=2))
    kueue.park(first)
    kueue.submit(workload("later", count=9, created=3))
    assert set(kueue.queues["vision"].parked) == {"first", "equal", "later"}
    assert names_of_heads(kueue) == {"smaller"}
    kueue.run_batch()
    assert names_of_heads(kueue) == {"first"}


def test_what_is_requeued_is_tried_in_the_next_cycle() -> None:
    kueue = kueue_of_two()
    first = workload("first", count=9)
    kueue.submit(first)
    run_cycle(kueue, 1.0)
    assert (first.is_tried, names_of_heads(kueue)) == (True, set())
    kueue.set_strategy("vision", STRICT_FIFO, 1.0)
    kueue.requeue(first, "now")
    assert (first.is_tried, first.requeued_at) == (False, "now")
    run_cycle(kueue, 1.1)
    assert (first.is_tried, names_of_heads(kueue)) == (True, {"first"})


def test_a_strict_head_is_not_parked() -> None:
    kueue = kueue_of_two()
    kueue.set_strategy("vision", STRICT_FIFO, 0.0)
    kueue.park(workload("head", count=9))
    assert names_of_heads(kueue) == {"head"}


def test_capacity_that_comes_free_plans_one_batch() -> None:
    kueue = kueue_of_two()
    running = [admit(kueue, name, "vision", 2) for name in ("one", "two")]
    kueue.release(running[0], now=5.0)
    kueue.shrink(running[1], 1, now=5.5)
    assert kueue.batch_at == 5.0 + BATCH_S
    assert kueue.queues["vision"].usage == 1


def test_a_scale_up_takes_only_what_its_job_has_not() -> None:
    kueue = kueue_of_two()
    running = admit(kueue, "job", "vision", 2)
    scale_up = workload("job-1", count=3)
    scale_up.replaces = running
    assert scale_up.added == 1
    kueue.admit(scale_up, 1.0)
    assert kueue.queues["vision"].usage == 3
    assert set(kueue.admitted) == {"job-1"}


def test_an_inactive_workload_is_never_a_head() -> None:
    kueue = kueue_of_two()
    parked = workload("job")
    kueue.submit(parked)
    parked.active = False
    kueue.submit(parked)
    assert not names_of_heads(kueue)
