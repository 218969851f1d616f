"""A scheduler that renews its lease and finishes no pass: its lease shows it, for the watchdog."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cede.api import names
from cede.api.objects import CESSIONS, LEASES, SECRETS, Json
from cede.kube import service
from cede.kube.loop import FAILED_PASSES
from scheduler import controller
from scheduler.__main__ import run
from scheduler.root_key import ROOT_SECRET
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.harness.scheduler import TwoTeams

LEASE = (names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE)
RENEWAL = ("PUT", LEASES.path(LEASE))
LONG_AGO = "2020-01-01T00:00:00.000000Z"


@pytest.fixture
async def teams(server: ApiServer) -> TwoTeams:
    """With the lease that an earlier leader has released."""
    metadata = {"namespace": LEASE[0], "name": LEASE[1]}
    metadata_and_pass: Json = {**metadata, "annotations": {names.LAST_PASS: LONG_AGO}}
    server.put(LEASES, {"metadata": metadata_and_pass, "spec": {"holderIdentity": ""}})
    return TwoTeams(server)


@asynccontextmanager
async def replica(server: ApiServer) -> AsyncIterator[None]:
    async with server.client("cede-scheduler") as client:
        task = asyncio.create_task(run(client, service.Flags("one", None, 0, "INFO")))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def last_pass(server: ApiServer) -> str:
    return str((server.get(LEASES, LEASE) or {})["metadata"]["annotations"][names.LAST_PASS])


def failures(error: str) -> float:
    return float(FAILED_PASSES.labels(error)._value.get())


async def renewals(teams: TwoTeams, count: int) -> None:
    """The lease is renewed so many times more."""
    wanted = teams.server.requests.count(RENEWAL) + count
    await teams.until(lambda: teams.server.requests.count(RENEWAL) >= wanted, "renewals")


@pytest.mark.slow
async def test_a_pass_that_ends_shows(teams: TwoTeams) -> None:
    async with replica(teams.server):
        await teams.until(lambda: last_pass(teams.server) > LONG_AGO, "a whole pass")


@pytest.mark.slow
async def test_a_plan_that_never_ends_shows(
    teams: TwoTeams, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = threading.Event()
    monkeypatch.setattr(controller, "plan", lambda *_: hanging.wait())
    async with replica(teams.server):
        await renewals(teams, 3)
        assert last_pass(teams.server) == LONG_AGO
    hanging.set()


@pytest.mark.slow
async def test_a_plan_that_fails_each_time_shows_also_over_restarts(
    teams: TwoTeams, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(controller, "plan", fail)
    before = failures("ZeroDivisionError")
    for restart in range(3):
        async with replica(teams.server):
            expected = before + restart + 1
            await teams.until(
                lambda expected=expected: failures("ZeroDivisionError") >= expected,  # type: ignore[misc]
                "a failed pass",
            )
            await renewals(teams, 1)
        assert last_pass(teams.server) == LONG_AGO


@pytest.mark.slow
async def test_a_kind_that_does_not_exist_shows(teams: TwoTeams) -> None:
    path = CESSIONS.path()
    teams.server.script("GET", path, *[refuses(404, "NotFound")] * 50)
    async with replica(teams.server):
        await teams.until(lambda: teams.server.requests.count(("GET", path)) >= 2, "two lists")
        assert last_pass(teams.server) == LONG_AGO
        assert RENEWAL not in teams.server.requests, "it does not even lead"


@pytest.mark.slow
async def test_a_lost_root_key_shows(teams: TwoTeams) -> None:
    teams.server.remove(SECRETS, ROOT_SECRET)
    before = failures("NotFound")
    async with replica(teams.server):
        await teams.until(lambda: failures("NotFound") >= before + 2, "failed passes")
        await renewals(teams, 1)
        assert last_pass(teams.server) == LONG_AGO
