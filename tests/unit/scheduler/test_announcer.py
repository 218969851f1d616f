"""Events of waiting jobs, recorded over real HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from cede.api import names
from cede.api.objects import EVENTS, WORKLOADS, Json
from cede.api.wait_reasons import WaitReason
from cede.causes.snapshot import Snapshot
from scheduler.announcer import Announcer, show_waiting
from scheduler.leader_clock import LeaderClock
from scheduler.wait_events import HOLDS_S, MIN_INTERVAL_S
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
) -> AsyncIterator[Callable[[float], Awaitable[None]]]:
    """After two rounds, in which a scheduler leads or does not. It gets the function that makes
    another one, so many seconds later."""
    wall = Clock()
    clock = LeaderClock(wall, wall)
    async with server.client("cede-scheduler") as client:
        announcer = Announcer(client, clock, lambda: (around, ()))

        async def announce(after_s: float) -> None:
            wall.seconds += after_s
            if leads:
                clock.note_pass()
            await announcer.announce()

        await announce(0.0)
        await announce(HOLDS_S)
        yield announce


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


async def test_an_event_that_the_server_refuses_is_recorded_two_minutes_later(
    server: ApiServer,
) -> None:
    server.script("POST", EVENTS.path(namespace="vision"), refuses(429, "TooManyRequests"))
    async with announcing(server, replace(WAITS, leases={})) as announce:
        assert recorded(server) == []
        # more often, or the scheduler would not lead without a gap
        for _ in range(int(MIN_INTERVAL_S / HOLDS_S) - 1):
            await announce(HOLDS_S)
        assert recorded(server) == []
        await announce(HOLDS_S)
    assert [event["reason"] for event in recorded(server)] == ["LentQuotaInUse"]


async def test_a_job_that_has_ended_meanwhile_costs_no_other_its_event(server: ApiServer) -> None:
    """Its Workload is read again, and is explained no more."""
    ended = {"type": "Finished", "status": "True"}
    metadata = {"name": "w-claim", "namespace": "vision"}
    body = {"metadata": metadata, "spec": {"active": False}, "status": {"conditions": [ended]}}
    server.put(WORKLOADS, body)
    other = workload(lacks(4), job="other", age_s=1)
    around = replace(INACTIVE, workloads=(*INACTIVE.workloads, other))
    async with announcing(server, around):
        assert {event["regarding"]["uid"] for event in recorded(server)} == {
            "job-claim",
            "job-other",
        }


async def test_a_job_that_cannot_be_explained_is_logged_once(
    server: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    container = {"resources": {"limits": {names.GPU: "many"}}}
    pods = {"count": 4, "template": {"spec": {"containers": [container]}}}
    broken = snapshot(workload(lacks(4), spec={"podSets": [pods]}))
    async with announcing(server, broken):
        assert [record.message for record in caplog.records] == ["not explained"]


async def test_a_replica_that_does_not_lead_records_nothing(server: ApiServer) -> None:
    show_waiting({WaitReason.LENT_QUOTA_IN_USE: 7})
    async with announcing(server, WAITS, leads=False):
        assert server.requests == []
    assert waiting(WaitReason.LENT_QUOTA_IN_USE) is None


async def test_waiting_jobs_are_counted_by_reason_without_a_request_more(
    server: ApiServer,
) -> None:
    show_waiting({WaitReason.BACK_OFF: 7})
    async with announcing(server, WAITS):
        assert waiting(WaitReason.LENT_QUOTA_IN_USE) == 1
        assert waiting(WaitReason.BACK_OFF) is None
        assert server.count() == {"POST": 1}


def waiting(reason: WaitReason) -> float | None:
    return REGISTRY.get_sample_value("cede_waiting_jobs", {"reason": str(reason)})


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
