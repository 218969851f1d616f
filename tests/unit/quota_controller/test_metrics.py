"""The metrics of teams are those of their statuses, and of teams that there are."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from cede.api import names
from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, POLICIES, Json
from tests.harness.quota_controller import World, existing, filled, put_allocation


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Of `research` and `vision`, which own four accelerators each, research uses six."""
    async with filled() as world:
        await world.settle()
        reserve(world, "research", {names.GPU: (6, 2), "cpu": ("2500m", "500m")})
        await world.settle()
        yield world


def reserve(world: World, queue: str, amounts: dict[str, tuple[int | str, int | str]]) -> None:
    """Kueue reports (used, borrowed) of these resources."""
    resources = [
        {"name": name, "total": used, "borrowed": borrowed}
        for name, (used, borrowed) in amounts.items()
    ]
    status: Json = {"flavorsReservation": [{"name": "local", "resources": resources}]}
    before = existing(world.server, CLUSTER_QUEUES, ("", queue))
    world.server.put(CLUSTER_QUEUES, {**before, "status": {**before["status"], **status}})


def lent(queue: str, resource: str = names.GPU) -> float | None:
    return REGISTRY.get_sample_value("cede_lent_quota", {"queue": queue, "resource": resource})


def namespaces() -> dict[str, str]:
    """By queue."""
    (metric,) = (metric for metric in REGISTRY.collect() if metric.name == "cede_team_info")
    return {sample.labels["queue"]: sample.labels["team_namespace"] for sample in metric.samples}


async def test_what_a_team_lends_is_as_in_its_status(world: World) -> None:
    [quota] = world.status("vision")["quotas"]
    assert (quota["lent"][names.GPU], quota["lent"]["cpu"]) == ("2", "500m")
    assert (lent("vision"), lent("research")) == (2, 0)


async def test_cpus_are_in_the_unit_of_kueues_metrics(world: World) -> None:
    assert lent("vision", "cpu") == 0.5


async def test_a_team_has_its_namespace(world: World) -> None:
    put_allocation(world.server, "vision", namespace={"name": "eyes"})
    await world.settle()
    assert namespaces() == {"vision": "eyes", "research": "research"}


async def test_a_namespace_that_another_team_has_counts_for_that_one(world: World) -> None:
    put_allocation(world.server, "vision", namespace={"name": "research"})
    await world.settle()
    assert world.ready("vision")["status"] == "False"
    assert namespaces() == {"vision": "vision", "research": "research"}


async def test_a_team_that_is_deleted_has_no_metrics(world: World) -> None:
    world.server.remove(ALLOCATIONS, ("", "vision"))
    await world.settle()
    assert lent("vision") is None
    assert namespaces() == {"research": "research"}


async def test_without_a_policy_the_last_figures_stay(world: World) -> None:
    world.server.remove(POLICIES, ("", "default"))
    await world.settle()
    assert lent("vision") == 2
