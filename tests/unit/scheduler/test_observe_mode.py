"""Mode Observe on the wire: all is given back, and what would be done is recorded."""

from functools import partial
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import CESSIONS, CLUSTER_QUEUES, EVENTS, JOBS, POLICIES
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.fakes.runtime import Runtime, loopback_address
from tests.harness.scheduler import TwoTeams, leading

pytestmark = pytest.mark.slow

ADDRESS = loopback_address(1)
STRICT = {"queueingStrategy": "StrictFIFO"}


def gpt(teams: TwoTeams, polls_until_ceded: float = 2) -> Runtime:
    """An elastic job of research that uses all eight accelerators, and its runtime."""
    uid = teams.job("research", "gpt", 8, "2-8", ADDRESS)
    return Runtime(ADDRESS, "research", uid, 8, polls_until_ceded)


def size(server: ApiServer) -> int:
    return int((server.get(JOBS, ("research", "gpt")) or {})["spec"]["parallelism"])


def strategy(server: ApiServer) -> str:
    return str((server.get(CLUSTER_QUEUES, ("", "vision")) or {})["spec"]["queueingStrategy"])


def is_cancelled(server: ApiServer) -> bool:
    phases = {cession["status"]["phase"] for cession in server.objects(CESSIONS)}
    return phases == {"Cancelled"} and strategy(server) == "BestEffortFIFO"


def is_observed(server: ApiServer, job: str) -> bool:
    return any(job in note for note in observed(server))


def observed(server: ApiServer) -> list[str]:
    return [e["note"] for e in server.objects(EVENTS) if e["reason"] == "Observed"]


async def test_mode_observe_records_what_it_would_do_and_changes_no_job(server: ApiServer) -> None:
    teams = TwoTeams(server)
    teams.configure(mode="Observe")
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    server.put(CLUSTER_QUEUES, queue | {"spec": queue["spec"] | STRICT})
    async with gpt(teams) as runtime, leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(
            lambda: bool(observed(server)) and strategy(server) == "BestEffortFIFO",
            "a pass with the preemptor pending",
        )
        assert runtime.requests == []
    assert server.objects(CESSIONS) == []
    assert size(server) == 8
    (note,) = observed(server)
    assert note.startswith("mode Observe, nothing is done: inference (vision) reclaims")


async def test_mode_observe_needs_no_right_to_write_anything_but_events(
    server: ApiServer,
) -> None:
    teams = TwoTeams(server)
    teams.configure(mode="Observe")
    refused = list[str]()

    def refuse(method: str, path: str, _: Any) -> web.Response | None:
        if path.endswith("/events"):
            return None
        refused.append(f"{method} {path}")
        return refusal(403, "Forbidden", "no right to write")

    server.admission_hook = refuse
    async with gpt(teams), leading(server) as scheduler:
        for job, priority in (("first", 50), ("urgent", 90)):
            teams.job("vision", job, 4, priority=priority)
            await teams.until(partial(is_observed, server, job), f"{job} to be observed")
        assert not scheduler.done()
    assert refused == []


@pytest.mark.parametrize("change", ["Observe", "deleted"])
async def test_without_a_policy_that_enforces_all_is_given_back(
    server: ApiServer, change: str
) -> None:
    """In the middle of a Cession the mode becomes Observe, or the ClusterPolicy is deleted."""
    teams = TwoTeams(server)
    async with gpt(teams, polls_until_ceded=float("inf")) as runtime, leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(
            lambda: any(requested == 4 for requested, _ in runtime.requests), "the size request"
        )
        if change == "deleted":
            server.remove(POLICIES, ("", names.POLICY_NAME))
        else:
            teams.configure(mode=change)
        await teams.until(lambda: is_cancelled(server), "the Cession to be cancelled")
        await teams.until(lambda: runtime.requests[-1] == (8, ""), "the request for the old size")
    assert size(server) == 8
