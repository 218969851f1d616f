"""What causes another pass, and what does not."""

from typing import Any

import pytest

from cede.api.objects import ALLOCATIONS, RESOURCE_QUOTAS
from quota_controller.desired.plan import Plan, Snapshot
from tests.harness.quota_controller import World, existing, put_allocation


async def test_what_kubernetes_counts_in_a_namespace_causes_no_pass(world: World) -> None:
    """It is counted again at each new pod of each team."""
    await world.settle()
    world.controller.wake.clear()
    quota = existing(world.server, RESOURCE_QUOTAS, ("vision", "cede-objects"))
    quota = world.server.put(RESOURCE_QUOTAS, quota | {"status": {"used": {"count/pods": "7"}}})
    await world.sync_caches()
    assert not world.controller.wake.is_set()
    spec = {"hard": {"count/pods": "50k"}}
    world.server.put(RESOURCE_QUOTAS, quota | {"spec": spec})
    await world.sync_caches()
    assert world.controller.wake.is_set()


@pytest.mark.parametrize(("holder", "is_woken"), [("scheduler-0", False), ("scheduler-1", True)])
async def test_a_lease_that_is_renewed_during_a_pass_causes_another_only_if_the_leader_is_another(
    world: World, monkeypatch: pytest.MonkeyPatch, holder: str, *, is_woken: bool
) -> None:
    """Over many teams, nearly every pass sees the renewal of a lease."""
    await world.settle()
    apply = world.controller.applier.apply

    async def apply_and_renew(snapshot: Snapshot, plan: Plan) -> None:
        await apply(snapshot, plan)
        world.now += 2
        world.renew_lease(holder)
        await world.sync_caches()

    monkeypatch.setattr(world.controller.applier, "apply", apply_and_renew)
    world.controller.wake.set()
    await world.controller.reconcile()
    assert world.controller.wake.is_set() == is_woken


async def test_an_edit_during_a_pass_is_read_by_another_although_the_pass_writes_the_object_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.settle()
    report = world.controller.status_writer.report

    async def edit_and_report(*arguments: Any) -> None:
        put_allocation(world.server, "research", fairShareWeight=2)
        await world.sync_caches()
        await report(*arguments)
        await world.sync_caches()

    monkeypatch.setattr(world.controller.status_writer, "report", edit_and_report)
    put_allocation(world.server, "research", active=False)
    await world.sync_caches()
    writes = len(world.server.writes())
    await world.controller.reconcile()
    written = [path for _, path in world.server.writes()[writes:]]
    assert ALLOCATIONS.path(("", "research"), subresource="status") in written
    assert world.controller.wake.is_set()
