"""Events of waiting jobs, recorded over real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cede.api.objects import EVENTS, WORKLOADS, Json
from cede.causes.snapshot import Snapshot
from scheduler.announcer import Announcer
from scheduler.leader_clock import LeaderClock
from scheduler.wait_events import HOLDS_S
from tests.builders.causes import lacks, snapshot, workload
from tests.builders.reports import NOW
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer

WAITS = snapshot(workload(lacks(4)))
INACTIVE = snapshot(workload(lacks(4), spec={"active": False}))


class Clock:
    """The system's clock and the monotonic one."""

    def __init__(self) -> None:
        self.seconds = NOW

    def __call__(self) -> float:
        return self.seconds


@asynccontextmanager
async def announcing(
    server: ApiServer, around: Snapshot, *, leads: bool = True
) -> AsyncIterator[Announcer]:
    """After two rounds, in which a scheduler leads or does not."""
    wall = Clock()
    clock = LeaderClock(wall, wall)
    async with server.client("cede-scheduler") as client:
        announcer = Announcer(client, clock, lambda: (around, ()))
        for _ in range(2):
            if leads:
                clock.note_pass()
            await announcer.announce()
            wall.seconds += HOLDS_S
        yield announcer


def recorded(server: ApiServer) -> list[Json]:
    return server.objects(EVENTS)


async def test_why_a_job_waits_is_an_event_of_the_job(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with announcing(server, WAITS):
        (event,) = recorded(server)
    assert event["regarding"]["kind"] == "Job"
    assert event["regarding"]["uid"] == "job-claim"
    assert event["reason"] == "LentQuotaInUse"
    assert event["note"].startswith("Its team owns what it lacks: 4 nvidia.com/gpu")
    assert [record.message for record in caplog.records] == ["waits"]


async def test_who_made_a_job_inactive_is_read_for_its_event_only(server: ApiServer) -> None:
    fields: Json = {"f:spec": {"f:active": {}}}
    writer = {"manager": "kubectl-edit", "time": "1970-01-01T02:40:00Z", "fieldsV1": fields}
    metadata = {"name": "w-claim", "namespace": "vision", "managedFields": [writer]}
    server.put(WORKLOADS, {"metadata": metadata, "spec": {"active": False}})
    async with announcing(server, INACTIVE):
        (event,) = recorded(server)
    assert event["reason"] == "DeactivatedByHand"
    assert "kubectl-edit wrote that" in event["note"]
    assert server.count()["GET"] == 1


async def test_a_server_that_refuses_costs_only_the_event(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.script("GET", WORKLOADS.path(namespace="vision"), refuses(403, "Forbidden"))
    server.script("POST", EVENTS.path(namespace="vision"), refuses(403, "Forbidden"))
    async with announcing(server, INACTIVE):
        assert recorded(server) == []
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "writer not read",
        "event not written",
    ]


async def test_a_replica_that_does_not_lead_records_nothing(server: ApiServer) -> None:
    async with announcing(server, WAITS, leads=False):
        assert server.requests == []


async def test_a_failure_ends_nothing(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scheduler.announcer.ROUND_S", 0.001)
    looks = 0
    enough = asyncio.Event()

    def fail() -> tuple[Snapshot, tuple[()]]:
        nonlocal looks
        looks += 1
        if looks == 3:
            enough.set()
        raise KeyError("a bug")

    clock = LeaderClock()
    clock.note_pass()
    async with server.client("cede-scheduler") as client:
        task = asyncio.create_task(Announcer(client, clock, fail).run())
        await enough.wait()
        task.cancel()
    assert caplog.records[0].message == "jobs not explained"
