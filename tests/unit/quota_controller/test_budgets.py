"""The controller against an API server: what the ledger's note makes of queue, status, events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from prometheus_client import REGISTRY

from cede.api import names
from cede.api.budget import MonthUse, month_of
from cede.api.objects import CLUSTER_QUEUES, CONFIG_MAPS, EVENTS, Json, rfc3339
from cede.kube.loop import Unfinished
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.harness.quota_controller import (
    World,
    condition_of,
    fill,
    filled,
    put_allocation,
    started,
)

NOTES = (names.SYSTEM_NAMESPACE, names.LEDGER)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with filled() as world:
        put_allocation(world.server, "vision", budget={"softHours": 50, "hardHours": 100})
        yield world


def note(world: World, hours: str | int) -> None:
    used = {"vision": {"local": {names.GPU: Decimal(hours)}}}
    use = MonthUse(month_of(world.now), rfc3339(world.now), used=used)
    metadata = {"name": NOTES[1], "namespace": NOTES[0]}
    world.server.put(CONFIG_MAPS, {"metadata": metadata, "data": {names.MONTH_USE: use.text()}})


def borrowing_limits(world: World) -> set[Any]:
    [group] = world.queue_spec()["resourceGroups"]
    return {entry.get("borrowingLimit") for f in group["flavors"] for entry in f["resources"]}


def events(world: World) -> list[tuple[str, str]]:
    return [
        (event["type"], event["reason"])
        for event in world.server.objects(EVENTS)
        if "Budget" in event["reason"]
    ]


def budget(world: World) -> Json:
    return condition_of(world.status(), names.WITHIN_BUDGET)


def metric(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


async def test_a_hard_budget_ends_borrowing_and_a_new_month_allows_it_again(world: World) -> None:
    await world.settle()
    assert (budget(world)["status"], budget(world)["reason"]) == ("Unknown", "NoFigure")
    assert borrowing_limits(world) == {None}
    quota = world.nominal_quota()
    for hours, reason, limits in (
        (49, "WithinBudget", {None}),
        (50, "SoftBudgetUsed", {None}),
        (100, "HardBudgetUsed", {"0"}),
    ):
        note(world, hours)
        await world.settle()
        assert budget(world)["reason"] == reason
        assert borrowing_limits(world) == limits
    assert world.nominal_quota() == quota, "its own quota stays"
    world.now += 31 * 24 * 3600
    world.renew_lease()
    note(world, 0)
    await world.settle()
    assert budget(world)["reason"] == "WithinBudget"
    assert borrowing_limits(world) == {None}
    assert events(world) == [
        ("Normal", "WithinBudget"),
        ("Warning", "SoftBudgetUsed"),
        ("Warning", "HardBudgetUsed"),
        ("Normal", "WithinBudget"),
    ]


async def test_a_deleted_note_lets_nobody_borrow_again(world: World) -> None:
    """Also for another replica: it reads the status."""
    note(world, 100)
    await world.settle()
    world.server.remove(CONFIG_MAPS, NOTES)
    await world.settle()
    assert budget(world)["reason"] == "HardBudgetUsed"
    assert borrowing_limits(world) == {"0"}
    put_allocation(world.server, "vision", budget={"softHours": 50, "hardHours": 101})
    await world.settle()
    assert borrowing_limits(world) == {None}
    put_allocation(world.server, "vision")
    await world.settle()
    assert "budgetUsedHours" not in world.status()


async def test_within_a_percent_of_the_budget_nothing_is_written(world: World) -> None:
    note(world, 10)
    await world.settle()
    note(world, "10.4")
    assert await world.settle() == []


async def test_the_metrics_show_the_budgets_that_there_are(world: World) -> None:
    note(world, 30)
    await world.settle()
    assert metric("cede_budget_used_hours", team="vision") == 30
    assert metric("cede_budget_hours", team="vision", limit="soft") == 50
    assert metric("cede_budget_hours", team="vision", limit="hard") == 100
    put_allocation(world.server, "vision")
    await world.settle()
    assert metric("cede_budget_used_hours", team="vision") is None
    assert metric("cede_budget_hours", team="vision", limit="hard") is None


async def test_without_the_right_to_read_the_note_all_else_goes_on() -> None:
    """As under the roles of an earlier version."""
    async with ApiServer() as server:
        fill(server)
        put_allocation(server, "vision", budget={"softHours": 50})
        refused = [refuses(403, "Forbidden")] * 20
        server.script("GET", CONFIG_MAPS.path(namespace=NOTES[0]), *refused)
        async with started(server, synced=False) as world:
            world.renew_lease()
            while not server.get(CLUSTER_QUEUES, ("", "vision")):
                await asyncio.sleep(0)
                with suppress(Unfinished):
                    await world.controller.reconcile()
            assert world.controller.ledger_notes.trouble
            assert borrowing_limits(world) == {None}
