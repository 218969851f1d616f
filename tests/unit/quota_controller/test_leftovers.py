"""Without a leading scheduler, the quota_controller alone undoes what the last one left."""

from collections.abc import AsyncIterator

import pytest

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, WORKLOADS, Json
from tests.fakes.api_faults import refuses
from tests.harness.quota_controller import World, existing, filled

WATCHDOG_S = 121
GPT = ("research", "job-gpt")
HEAD = ("vision", "job-head")
OTHER = ("research", "job-other")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Three Workloads are inactive: `job-gpt` was stopped for a Cession, `job-head` was set aside
    for it, and the other was stopped by its user."""
    for_cession = {names.STOPPED_FOR: "c-1"}
    async with filled() as world:
        for (namespace, name), labels in ((GPT, for_cession), (HEAD, for_cession), (OTHER, {})):
            metadata = {"namespace": namespace, "name": name, "labels": {"app": "it", **labels}}
            world.server.put(WORKLOADS, {"metadata": metadata, "spec": {"active": False}})
        await world.settle()
        yield world


def workload(world: World, key: tuple[str, str]) -> tuple[bool, Json]:
    body = existing(world.server, WORKLOADS, key)
    return body["spec"]["active"], body["metadata"]["labels"]


def make_strict(world: World) -> None:
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    queue["spec"]["queueingStrategy"] = "StrictFIFO"
    world.server.put(CLUSTER_QUEUES, queue)


async def test_while_a_scheduler_leads_its_work_is_left_alone(world: World) -> None:
    make_strict(world)
    await world.settle()
    assert workload(world, GPT)[0] is False
    assert world.queue_spec()["queueingStrategy"] == "StrictFIFO"


async def test_without_a_leader_stopped_jobs_run_again(world: World) -> None:
    world.now += WATCHDOG_S
    await world.settle()
    assert workload(world, GPT) == workload(world, HEAD) == (True, {"app": "it"})
    assert workload(world, OTHER)[0] is False, "its user stopped that one"


async def test_without_a_leader_no_queue_stays_strict(world: World) -> None:
    make_strict(world)
    world.now += WATCHDOG_S
    await world.settle()
    assert world.queue_spec()["queueingStrategy"] == "BestEffortFIFO"


async def test_what_a_scheduler_does_that_is_back_is_left_alone(world: World) -> None:
    """Also after its second outage, when Kueue keeps its preemption for a while."""
    for _ in range(2):
        world.now += WATCHDOG_S
        await world.settle()
        world.renew_lease()
        await world.settle()
    assert world.policy_status()["preemption"] == "Kueue"
    make_strict(world)
    await world.settle()
    assert world.queue_spec()["queueingStrategy"] == "StrictFIFO"
    world.now += WATCHDOG_S
    await world.settle()
    assert world.queue_spec()["queueingStrategy"] == "BestEffortFIFO", "it has ended again"


async def test_a_refusal_delays_nothing_else_and_is_tried_again(world: World) -> None:
    make_strict(world)
    refusal = refuses(500, "InternalError", "webhook down")
    world.server.script("PATCH", WORKLOADS.path(GPT), refusal)
    world.now += WATCHDOG_S
    await world.sync_caches()
    await world.controller.reconcile()
    assert workload(world, GPT)[0] is False
    await world.settle()
    assert world.queue_spec()["queueingStrategy"] == "BestEffortFIFO"
    assert workload(world, GPT)[0] is True
