"""One cycle of the model: its order, what StrictFIFO reserves, whom stock Kueue preempts."""

from scheduler.quota.cohort import STRICT_FIFO
from scheduler.simulate.kueue import Kueue, Settings
from scheduler.simulate.kueue_cycle import Result, run_cycle
from scheduler.simulate.objects import TeamQuota
from tests.builders.simulated import STOCK, admit, teams, workload


def names(result: Result) -> list[str]:
    return [workload.name for workload in result.admitted]


def test_a_head_within_its_own_quota_goes_before_one_that_borrows() -> None:
    for fair_sharing in (True, False):
        kueue = Kueue(teams(vision=4, research=2), Settings(fair_sharing=fair_sharing))
        admit(kueue, "running", "research", 2)
        kueue.submit(workload("borrows", "research", 4, priority=90))
        kueue.submit(workload("owns", "vision", 4, created=9))
        assert names(run_cycle(kueue, 0.0)) == ["owns"]


def test_fair_sharing_prefers_the_smaller_share_and_classical_the_older() -> None:
    for fair_sharing, winner in ((True, "poor"), (False, "rich")):
        kueue = Kueue(teams(vision=8, rich=0, poor=0), Settings(fair_sharing=fair_sharing))
        admit(kueue, "running", "rich", 4)
        kueue.submit(workload("rich", "rich", 4, created=1))
        kueue.submit(workload("poor", "poor", 4, created=2))
        assert names(run_cycle(kueue, 0.0)) == [winner]


def test_what_fitted_alone_is_tried_again_and_not_parked() -> None:
    kueue = Kueue(teams(vision=4, rich=0, poor=0), Settings())
    kueue.submit(workload("first", "rich", 4, created=1))
    kueue.submit(workload("second", "poor", 4, created=2))
    run_cycle(kueue, 0.0)
    assert set(kueue.queues["poor"].heap) == {"second"}
    run_cycle(kueue, 0.1)
    assert set(kueue.queues["poor"].parked) == {"second"}


def test_a_strict_head_reserves_what_is_missing_within_its_own_quota() -> None:
    """Kueue: reserveCapacityForUnreclaimablePreempt."""
    for strategy, admitted in ((STRICT_FIFO, []), ("BestEffortFIFO", ["borrower"])):
        kueue = Kueue(teams(vision=4, research=4), Settings())
        admit(kueue, "running", "research", 6)
        kueue.set_strategy("vision", strategy, 0.0)
        kueue.submit(workload("claim", "vision", 4))
        run_cycle(kueue, 0.0)
        kueue.submit(workload("borrower", "research", 2))
        assert names(run_cycle(kueue, 1.0)) == admitted


def test_a_parked_head_reserves_nothing_until_the_batch() -> None:
    """Setting StrictFIFO does not wake it: what comes free within this second is stolen."""
    kueue = Kueue(teams(vision=4, research=4), Settings())
    running = admit(kueue, "running", "research", 8)
    kueue.submit(workload("claim", "vision", 4))
    run_cycle(kueue, 0.0)
    kueue.set_strategy("vision", STRICT_FIFO, 0.1)
    kueue.shrink(running, 6, 0.2)
    kueue.submit(workload("thief", "research", 2))
    assert names(run_cycle(kueue, 0.3)) == ["thief"]


def test_a_request_above_its_own_quota_reserves_nothing() -> None:
    kueue = Kueue(teams(vision=4, research=4), Settings())
    admit(kueue, "running", "research", 6)
    kueue.set_strategy("vision", STRICT_FIFO, 0.0)
    kueue.submit(workload("hopeless", "vision", 6))
    kueue.submit(workload("borrower", "research", 2))
    assert names(run_cycle(kueue, 0.0)) == ["borrower"]


def test_a_borrowing_head_keeps_within_its_limit() -> None:
    kueue = Kueue([TeamQuota("vision", 4, borrowing_limit=1), TeamQuota("research", 4)], Settings())
    kueue.submit(workload("six", "vision", 6))
    kueue.submit(workload("five", "vision", 5, created=1))
    assert names(run_cycle(kueue, 0.0)) == []
    assert names(run_cycle(kueue, 0.1)) == ["five"]


def test_stock_kueue_preempts_for_its_own_quota_and_keeps_the_preemptor_first() -> None:
    kueue = Kueue(teams(vision=4, research=4), STOCK)
    running = admit(kueue, "running", "research", 8)
    kueue.submit(workload("claim", "vision", 4))
    assert run_cycle(kueue, 0.0).preempted == [running]
    running.is_evicting = True
    kueue.submit(workload("urgent", "vision", 4, priority=90))
    assert run_cycle(kueue, 0.1).preempted == []
    kueue.release(running, 1.0)
    assert names(run_cycle(kueue, 1.1)) == ["claim"]


def test_a_head_that_its_own_quota_covers_is_owed() -> None:
    kueue = Kueue(teams(vision=4, research=4), Settings())
    admit(kueue, "running", "research", 8)
    claim = workload("claim", "vision", 4)
    kueue.submit(claim)
    kueue.submit(workload("greedy", "research", 4))
    assert run_cycle(kueue, 0.0).owed == [claim]
