"""A scheduler that renews its lease and finishes no pass: its lease shows it, for the watchdog."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from cede.api import names
from cede.api.objects import CESSIONS, LEASES, SECRETS, Json
from cede.kube import service
from cede.kube.lease import Stalled
from cede.kube.loop import FAILED_PASSES
from scheduler import __main__, controller
from scheduler.__main__ import run
from scheduler.metrics import PLAN_FAULTS
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


# --- an error in a part of the plan ---------------------------------------------------------------
def fail(*_: object, **__: object) -> None:
    raise ZeroDivisionError("a bug")


async def faulty_passes(teams: TwoTeams, count: int) -> None:
    """A claim waits, and so many parts of plans more could not be made."""
    teams.job("research", "gpt", 8)
    teams.job("vision", "inference", 4)
    wanted = PLAN_FAULTS._value.get() + count
    await teams.until(lambda: PLAN_FAULTS._value.get() >= wanted, "faulty passes")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["scheduler.plan.decide", "scheduler.cession.opening.preemptors"])
async def test_an_error_about_the_claims_of_all_teams_shows_although_passes_end(
    teams: TwoTeams, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(part, fail)
    async with replica(teams.server):
        await faulty_passes(teams, 3)
        await renewals(teams, 2)
        assert last_pass(teams.server) == LONG_AGO
        monkeypatch.undo()
        await teams.until(lambda: last_pass(teams.server) > LONG_AGO, "a whole pass")


@pytest.mark.slow
async def test_a_leader_that_takes_nothing_back_for_anybody_gives_the_lease_up(
    teams: TwoTeams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.plan.decide", fail)
    monkeypatch.setattr(controller, "QUIET_INTERVAL_S", 0.1)
    leadership = replace(__main__.LEADERSHIP, stalled_after_s=3.0)
    monkeypatch.setattr(__main__, "LEADERSHIP", leadership)
    async with teams.server.client("cede-scheduler") as client:
        with pytest.raises(ExceptionGroup, match="unhandled") as raised:
            async with asyncio.timeout(15):
                await run(client, service.Flags("one", None, 0, "INFO"))
    assert raised.group_contains(Stalled)
    assert (teams.server.get(LEASES, LEASE) or {})["spec"]["holderIdentity"] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "part"),
    [
        pytest.param("Enforce", "scheduler.cession.opening._decide", id="one claim"),
        pytest.param("Enforce", "scheduler.plan.grow", id="growth"),
        pytest.param(
            "Observe", "scheduler.plan.decide", id="mode Observe, in which Kueue preempts"
        ),
    ],
)
async def test_an_error_that_keeps_no_claim_of_others_waiting_changes_nothing(
    teams: TwoTeams, monkeypatch: pytest.MonkeyPatch, mode: str, part: str
) -> None:
    teams.configure(mode)
    monkeypatch.setattr(part, fail)
    async with replica(teams.server):
        await faulty_passes(teams, 3)
        await teams.until(lambda: last_pass(teams.server) > LONG_AGO, "a whole pass")
