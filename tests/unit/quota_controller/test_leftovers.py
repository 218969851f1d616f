"""Without a leading scheduler, the quota_controller alone undoes what the last one left."""

from collections.abc import AsyncIterator

import pytest

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS, Json
from cede.api.private_quota import Original, PrivateQuota
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


# --- guards and private quota ---------------------------------------------------------------------
LABELS = {names.GUARD: "c-1", names.MANAGED_BY: names.MANAGED_BY_CEDE}


def nominal(queue: Json) -> str:
    return str(first_resource(queue)["nominalQuota"])


def first_resource(queue: Json) -> Json:
    resource: Json = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    return resource


def give_private_quota(world: World) -> tuple[str, str]:
    """As the scheduler does. Returns the nominal quota before, and with it."""
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]["name"]
    before = dict(first_resource(queue))
    original = Original(flavor, before["name"], before["nominalQuota"], before.get("lendingLimit"))
    note = PrivateQuota("c-1", (original,)).text()
    queue["metadata"].setdefault("annotations", {})[names.PRIVATE_QUOTA] = note
    first_resource(queue)["nominalQuota"] = "99"
    world.server.put(CLUSTER_QUEUES, queue)
    return str(before["nominalQuota"]), "99"


async def test_private_quota_stays_only_while_a_scheduler_leads(world: World) -> None:
    make_guard(world)
    before, private = give_private_quota(world)
    await world.settle()
    assert nominal(existing(world.server, CLUSTER_QUEUES, ("", "vision"))) == private
    world.now += WATCHDOG_S
    await world.settle()
    queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
    assert nominal(queue) == before
    assert names.PRIVATE_QUOTA not in queue["metadata"].get("annotations", {})


async def test_private_quota_ends_with_its_guard_whoever_leads(world: World) -> None:
    """Kueue ended the guard, or somebody deleted it: what it kept is in use by others."""
    before, _ = give_private_quota(world)
    await world.settle()
    assert nominal(existing(world.server, CLUSTER_QUEUES, ("", "vision"))) == before


def make_guard(world: World) -> None:
    queue = {
        "metadata": {"name": "cede-guard-c-1", "labels": LABELS},
        "spec": {},
        "status": {"reservingWorkloads": 1},
    }
    world.server.put(CLUSTER_QUEUES, queue)


async def test_guards_stay_only_while_a_scheduler_leads(world: World) -> None:
    in_namespace = {"name": "c-1", "namespace": names.GUARD_NAMESPACE, "labels": LABELS}
    for kind in (JOBS, LOCAL_QUEUES):
        world.server.put(kind, {"metadata": in_namespace, "spec": {}})
    make_guard(world)

    key = (names.GUARD_NAMESPACE, "c-1")
    keys = ((JOBS, key), (LOCAL_QUEUES, key), (CLUSTER_QUEUES, ("", "cede-guard-c-1")))

    def left() -> int:
        return sum(world.server.get(kind, key) is not None for kind, key in keys)

    await world.settle()
    assert left() == 3
    world.now += WATCHDOG_S
    await world.settle()
    assert left() == 0


async def test_the_teams_own_quota_comes_back_then_the_note_goes_then_the_guard(
    world: World,
) -> None:
    """The note is there for as long as the quota may be private, and the guard longer than both."""
    make_guard(world)
    before, private = give_private_quota(world)
    states = list[tuple[bool, bool, bool]]()

    def record() -> None:
        queue = existing(world.server, CLUSTER_QUEUES, ("", "vision"))
        guard = world.server.get(CLUSTER_QUEUES, ("", "cede-guard-c-1"))
        has_note = names.PRIVATE_QUOTA in queue["metadata"].get("annotations", {})
        state = nominal(queue) == private, has_note, guard is not None
        if state not in states:
            states.append(state)

    await world.settle()
    record()
    world.now += WATCHDOG_S
    for _ in range(6):
        await world.sync_caches()
        await world.controller.reconcile()
        record()
    assert states == [
        (True, True, True),
        (False, True, True),
        (False, False, True),
        (False, False, False),
    ]
    assert nominal(existing(world.server, CLUSTER_QUEUES, ("", "vision"))) == before


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
