"""Kueue gets its preemption back when no scheduler makes progress."""

import pytest

from cede.api.objects import CLUSTER_QUEUES, rfc3339
from tests.harness.quota_controller import World, condition_of, existing


async def test_without_a_leader_kueue_preempts_until_one_is_back(world: World) -> None:
    off = {"Never"}
    kueues_own = {"Any", "LowerPriority"}
    await world.settle()
    assert set(world.queue_spec()["preemption"].values()) == off
    world.now += 119
    assert await world.settle() == [], "not yet"
    world.now += 2
    await world.settle()
    assert set(world.queue_spec()["preemption"].values()) == kueues_own
    status = world.policy_status()
    assert (status["preemption"], status.get("leader", "")) == ("Kueue", "")
    leads = condition_of(status, "SchedulerLeads")
    assert "no scheduler has finished a pass for 120 s" in leads["message"]
    world.renew_lease("scheduler-1")
    await world.settle()
    assert set(world.queue_spec()["preemption"].values()) == off


async def test_a_scheduler_that_comes_back_for_the_second_time_waits_and_the_status_says_so(
    world: World,
) -> None:
    await world.settle()
    for _ in range(2):
        world.now += 130
        await world.settle()
        world.renew_lease("scheduler-1")
        await world.settle()
    status = world.policy_status()
    assert (status["preemption"], status["leader"]) == ("Kueue", "scheduler-1")
    leads = condition_of(status, "SchedulerLeads")
    assert (leads["status"], leads["reason"]) == ("False", "Returning")
    assert "scheduler-1 finishes passes again" in leads["message"]
    for _ in range(3):
        world.now += 119
        world.renew_lease("scheduler-1")
        await world.settle()
    assert world.policy_status()["preemption"] == "Kueue", "8 minutes after its first return"
    world.now += 119
    world.renew_lease("scheduler-1")
    await world.settle()
    assert world.policy_status()["preemption"] == "Cede"


async def test_a_scheduler_with_a_slow_clock_still_leads(world: World) -> None:
    await world.settle()
    for _ in range(5):
        world.now += 60
        world.put_lease("s", rfc3339(world.now - 3600, micro=True))
        await world.settle()
        assert world.queue_spec()["preemption"]["reclaimWithinCohort"] == "Never"


@pytest.mark.parametrize("last_pass", ["", "2020-01-01T00:00:00Z"], ids=["none", "long ago"])
async def test_a_lease_that_is_renewed_without_a_pass_is_no_leader(
    world: World, last_pass: str
) -> None:
    """A scheduler that hangs, fails in every pass, or ends and starts again."""
    for _ in range(3):
        world.now += 60
        world.put_lease("s", last_pass)
        await world.settle()
    assert world.queue_spec()["preemption"]["reclaimWithinCohort"] == "Any"


async def test_a_queue_without_a_leader_does_not_stay_strict(world: World) -> None:
    """The scheduler makes a queue strict for a preemptor, and may never come back."""
    await world.settle()
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    strict = queue | {"spec": queue["spec"] | {"queueingStrategy": "StrictFIFO"}}
    world.server.put(CLUSTER_QUEUES, strict)
    world.renew_lease()
    await world.settle()
    assert world.queue_spec()["queueingStrategy"] == "StrictFIFO", "the scheduler's, while it leads"
    world.now += 121
    await world.settle()
    assert world.queue_spec()["queueingStrategy"] == "BestEffortFIFO"


async def test_the_next_pass_is_in_time_for_the_watchdog(world: World) -> None:
    await world.settle()
    world.now += 110
    await world.sync_caches()
    assert 9 < await world.controller.reconcile() < 11
