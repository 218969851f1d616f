"""Statuses are applied in a form that the API server stores, and news is an event once."""

from typing import Any

import pytest

from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import AllocationStatus
from cede.api.objects import ALLOCATIONS, CONFIG_MAPS, DEPLOYMENTS, EVENTS, POLICIES, Key, Kind
from cede.kueue_settings import config as kueue_config
from cede.kueue_settings.config import CONFIG_KEY
from quota_controller import status_writer
from quota_controller.controller import RETRY_INTERVAL_S
from quota_controller.metrics import KUEUE_CONFIGURED
from quota_controller.status.allocation import allocation_status
from quota_controller.status_writer import without_empty_maps
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.harness.quota_controller import condition_of, existing, filled, put_allocation


def test_empty_maps_are_not_applied() -> None:
    """For `{}` in place of a map of the same manager, API server 1.36 stores null."""
    status = {"free": {}, "quotas": [{"free": {}, "used": {"cpu": "1"}}]}
    assert without_empty_maps(status) == {"quotas": [{"used": {"cpu": "1"}}]}


async def test_a_change_of_ready_is_one_event() -> None:
    async with filled() as world:
        await world.settle()
        events = world.server.objects(EVENTS)
        notes = [event["note"] for event in events if event["regarding"]["name"] == "vision"]
        assert notes == [world.ready()["message"]]


async def test_a_status_that_is_refused_keeps_no_other_from_being_written() -> None:
    async with filled() as world:
        path = ALLOCATIONS.path(("", "research"), subresource="status")
        world.server.script("PATCH", path, refuses(422, "Invalid", "a fault of ours"))
        world.run_kueue()
        await world.sync_caches()
        await world.controller.reconcile()
        assert ("PATCH", path) in world.server.writes()
        assert "status" not in existing(world.server, ALLOCATIONS, ("", "research"))
        assert world.status("vision")["conditions"]
        assert world.policy_status()["conditions"]


async def test_a_status_that_cannot_be_built_keeps_no_other_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(allocation: ComputeAllocation, *picture: Any) -> AllocationStatus:
        if allocation.metadata.name == "research":
            raise ValueError("a fault of ours")
        return allocation_status(allocation, *picture)

    monkeypatch.setattr(status_writer, "allocation_status", build)
    async with filled() as world:
        await world.settle()
        assert "status" not in existing(world.server, ALLOCATIONS, ("", "research"))
        assert world.ready("vision")["status"] == "True"
        assert world.policy_status()["conditions"]


async def test_a_status_that_waits_for_the_watch_is_tried_again_soon() -> None:
    """A grant is kept only in memory until then, and for a few seconds."""
    async with filled() as world:
        await world.settle()
        written = world.controller.status_writer._written_versions
        # newer than anything that the watch shows
        written[ALLOCATIONS, ("", "vision")] = 10**9
        put_allocation(
            world.server, "vision", quotas=[{"instanceType": "local", "accelerators": 1}]
        )
        await world.sync_caches()
        assert await world.controller.reconcile() <= RETRY_INTERVAL_S
        written.clear()
        await world.settle()
        assert not world.controller.status_writer.has_waiting


async def test_the_metric_of_kueues_settings_is_0_while_they_are_known_to_be_wrong() -> None:
    async with filled() as world:
        await world.settle()
        # Kueue is not readable, so nothing is known
        assert next(iter(KUEUE_CONFIGURED.collect())).samples[0].value == 1
        put(world.server, DEPLOYMENTS, kueue_config.DEPLOYMENT, spec={"template": {"spec": {}}})
        text = "kind: Configuration\nintegrations: {frameworks: []}\n"
        put(world.server, CONFIG_MAPS, kueue_config.CONFIG_MAP, data={CONFIG_KEY: text})
        await world.settle()
        condition = condition_of(world.policy_status(), "KueueConfigured")
        assert condition["status"] == "False", condition
        assert next(iter(KUEUE_CONFIGURED.collect())).samples[0].value == 0
        # no policy needs anything
        world.server.remove(POLICIES, ("", "default"))
        await world.sync_caches()
        await world.controller.reconcile()
        assert next(iter(KUEUE_CONFIGURED.collect())).samples[0].value == 1


def put(server: ApiServer, kind: Kind, key: Key, **fields: Any) -> None:
    namespace, name = key
    server.put(kind, {"metadata": {"namespace": namespace, "name": name}} | fields)
