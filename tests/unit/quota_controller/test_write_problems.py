"""A write that is refused is a problem of its owner; every other team is served."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    LOCAL_QUEUES,
    NAMESPACES,
    SERVICES,
    WORKLOADS,
    Key,
    Kind,
)
from cede.kube.errors import ApiError
from quota_controller.controller import MAX_RETRY_INTERVAL_S, RETRY_INTERVAL_S
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.quota_controller import World, existing, filled, put_allocation

REFUSALS = [
    pytest.param(403, "WriteRefused", id="403"),
    pytest.param(500, "WriteFailed", id="500"),
]
OLD_NAMESPACE = NAMESPACES.path(("", "monitoring"))
RESEARCH = ALLOCATIONS.path(("", "research"))
STATUS_OF_RESEARCH = ALLOCATIONS.path(("", "research"), subresource="status")
LABELS = {names.ALLOCATION: "vision", names.TEAM: "vision"}
DENIAL = 'admission webhook "example" denied the request: no'
DELETED = "2027-01-01T00:00:00Z"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with filled() as world:
        await world.settle()
        yield world


def refuse(server: ApiServer, method: str, path: str, code: int, message: str = "not so") -> None:
    def answer(asked: str, asked_path: str, body: Any) -> web.Response | None:
        is_refused = (asked, asked_path) == (method, path)
        return refusal(code, "Reason", message) if is_refused else None

    server.admission_hook = answer


def accept_all(server: ApiServer) -> None:
    server.admission_hook = lambda *_: None


async def passes(world: World) -> float:
    """Three passes. Returns the seconds to the next one."""
    seconds = 0.0
    for _ in range(3):
        world.now += 60
        world.renew_lease()
        world.run_kueue()
        await world.sync_caches()
        seconds = await world.controller.reconcile()
    return seconds


def edit(server: ApiServer, kind: Kind, key: Key, **metadata: Any) -> None:
    obj = existing(server, kind, key)
    server.put(kind, {**obj, "metadata": {**obj["metadata"], **metadata}})


@pytest.mark.parametrize(("code", "reason"), REFUSALS)
async def test_a_namespace_whose_labels_may_not_be_removed_stops_no_other_team(
    world: World, code: int, reason: str
) -> None:
    world.server.put(NAMESPACES, {"metadata": {"name": "monitoring", "labels": LABELS}})
    stopped = {"name": "job", "namespace": "research", "labels": {names.STOPPED_FOR: "c"}}
    world.server.put(WORKLOADS, {"metadata": stopped, "spec": {"active": False}})
    put_allocation(world.server, "newcomer")
    put_allocation(world.server, "leaving")
    await world.settle()
    edit(world.server, ALLOCATIONS, ("", "leaving"), deletionTimestamp=DELETED)
    world.server.put(NAMESPACES, {"metadata": {"name": "monitoring", "labels": LABELS}})
    refuse(world.server, "PATCH", OLD_NAMESPACE, code)
    await passes(world)
    assert world.ready("newcomer")["status"] == "True"
    assert world.server.get(ALLOCATIONS, ("", "leaving")) is None
    ready = world.ready("vision")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert "removal of Cede's labels from Namespace monitoring" in ready["message"]
    assert ready["message"].endswith("not so")
    world.now += 200
    await world.sync_caches()
    await world.controller.reconcile()
    workload = existing(world.server, WORKLOADS, ("research", "job"))
    assert workload["spec"]["active"], "it was stopped by a scheduler that does not lead any more"
    accept_all(world.server)
    world.renew_lease()
    await world.settle()
    assert world.ready("vision")["status"] == "True", "it recovers"


@pytest.mark.parametrize(("code", "reason"), REFUSALS)
async def test_an_allocation_that_gets_no_finalizer_stops_no_other_team(
    world: World, code: int, reason: str
) -> None:
    edit(world.server, ALLOCATIONS, ("", "research"), finalizers=[])
    world.server.remove(LOCAL_QUEUES, ("research", "default"))
    put_allocation(world.server, "newcomer")
    refuse(world.server, "PATCH", RESEARCH, code)
    await passes(world)
    assert world.ready("newcomer")["status"] == "True"
    ready = world.ready("research")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert "the finalizer of ComputeAllocation research" in ready["message"]
    assert world.server.get(LOCAL_QUEUES, ("research", "default")) is None, (
        "nothing is made that no finalizer guards"
    )
    accept_all(world.server)
    await world.settle()
    assert world.ready("research")["status"] == "True", "it recovers"


@pytest.mark.parametrize("code", [401, 404, 409, 429, 503])
async def test_a_denial_with_any_status_stops_no_other_team(world: World, code: int) -> None:
    """Whoever denies chooses the status."""
    edit(world.server, ALLOCATIONS, ("", "research"), finalizers=[])
    put_allocation(world.server, "newcomer")
    refuse(world.server, "PATCH", RESEARCH, code, DENIAL)
    await passes(world)
    assert world.ready("newcomer")["status"] == "True"
    assert world.ready("research")["message"].endswith(DENIAL)


@pytest.mark.parametrize(("code", "reason"), [(422, "WriteRefused"), *REFUSALS])
async def test_an_allocation_that_keeps_its_finalizer_says_why(
    world: World, code: int, reason: str
) -> None:
    for name in ("vision", "research"):
        edit(world.server, ALLOCATIONS, ("", name), deletionTimestamp=DELETED)
    refuse(world.server, "PATCH", RESEARCH, code)
    await passes(world)
    assert world.server.get(ALLOCATIONS, ("", "vision")) is None
    ready = world.ready("research")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert "the removal of the finalizer of ComputeAllocation research" in ready["message"]
    accept_all(world.server)
    await passes(world)
    assert world.server.get(ALLOCATIONS, ("", "research")) is None


@pytest.mark.parametrize("code", [403, 404, 409, 422, 500])
async def test_an_object_that_may_not_be_deleted_stops_no_other_team(
    world: World, code: int
) -> None:
    labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE, names.ALLOCATION: "research"}
    old = {"name": "old", "namespace": "research", "labels": labels}
    refuse(world.server, "DELETE", SERVICES.path(("research", "old")), code, DENIAL)
    world.server.put(SERVICES, {"metadata": old})
    put_allocation(world.server, "newcomer")
    await passes(world)
    assert world.ready("newcomer")["status"] == "True"
    assert "the deletion of Service old in namespace research" in world.ready("research")["message"]
    accept_all(world.server)
    await world.settle()
    assert world.ready("research")["status"] == "True", "it recovers"


async def test_an_allocation_whose_objects_may_not_be_deleted_says_why(world: World) -> None:
    edit(world.server, ALLOCATIONS, ("", "research"), deletionTimestamp=DELETED)
    refuse(world.server, "DELETE", LOCAL_QUEUES.path(("research", "default")), 403, DENIAL)
    await passes(world)
    ready = world.ready("research")
    assert (ready["status"], ready["reason"]) == ("False", "WriteRefused")
    assert "the deletion of LocalQueue default in namespace research" in ready["message"]
    assert ready["message"].endswith(DENIAL)
    accept_all(world.server)
    await passes(world)
    assert world.server.get(ALLOCATIONS, ("", "research")) is None


@pytest.mark.parametrize(("code", "reason"), REFUSALS)
async def test_a_status_that_may_not_be_written_stops_no_other_team(
    world: World, code: int, reason: str
) -> None:
    put_allocation(world.server, "research", active=False)
    put_allocation(world.server, "newcomer")
    refuse(world.server, "PATCH", STATUS_OF_RESEARCH, code)
    await passes(world)
    assert world.ready("newcomer")["status"] == "True"
    assert world.policy_status()["conditions"]
    [problem] = world.controller.status_writer.problems.values()
    assert problem.reason == reason
    accept_all(world.server)
    await world.settle()
    assert world.ready("research")["reason"] == "NotActive"


@pytest.mark.parametrize("code", [403, 404, 409, 422, 500, 503])
async def test_a_status_that_is_denied_with_any_status_is_logged_and_tried_again_ever_later(
    world: World, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A pass goes through the whole cluster: not each 2 s for as long as a webhook refuses it."""
    put_allocation(world.server, "research", active=False)
    refuse(world.server, "PATCH", STATUS_OF_RESEARCH, code, DENIAL)
    intervals = []
    for seconds in (1, 1, 10, 60):
        world.now += seconds
        world.renew_lease()
        await world.sync_caches()
        intervals.append(await world.controller.reconcile())
    assert intervals == [RETRY_INTERVAL_S, RETRY_INTERVAL_S, 11, MAX_RETRY_INTERVAL_S]
    reasons = [vars(r)["why"] for r in caplog.records if r.message == "status not written"]
    assert len(reasons) == 4
    assert all(DENIAL in reason for reason in reasons)


@pytest.mark.parametrize("path", [OLD_NAMESPACE, RESEARCH, STATUS_OF_RESEARCH])
async def test_a_server_that_is_not_there_ends_the_pass(world: World, path: str) -> None:
    world.server.put(NAMESPACES, {"metadata": {"name": "monitoring", "labels": LABELS}})
    edit(world.server, ALLOCATIONS, ("", "research"), finalizers=[])
    put_allocation(world.server, "research", active=False)
    refuse(world.server, "PATCH", path, 503)
    await world.sync_caches()
    with pytest.raises(ApiError):
        await world.controller.reconcile()
