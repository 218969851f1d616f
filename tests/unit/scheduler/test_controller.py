"""A whole Cession over real HTTP."""

import asyncio
import pkgutil
import threading
from typing import Any

import pytest
from aiohttp import web

from cede.api.objects import (
    CESSIONS,
    CLUSTER_QUEUES,
    JOBS,
    PODS,
    Json,
)
from cede.api.wait_reasons import WaitReason
from cede.kube.cache import all_synced
from scheduler.controller import Controller
from scheduler.leader_clock import LeaderClock
from scheduler.preemption import targets
from scheduler.wait_events import HOLDS_S, next_round
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.scheduler import TwoTeams, leading
from tests.harness.two_teams import cessions, ended, gpt, labels, phases, size, strategy

pytestmark = pytest.mark.slow

COMPLETED = "the preemptor's pods to be ready"


# --- from the pending Workload to its running pods ------------------------------------------------
async def test_a_cession_from_the_pending_workload_to_its_running_pods(server: ApiServer) -> None:
    teams = TwoTeams(server)
    async with gpt(teams) as runtime, leading(server):
        await teams.until(lambda: runtime.requests == [(8, "")], "the first size request")
        teams.job("vision", "inference", 4)
        await teams.until(ended(server), COMPLETED)
    (cession,) = cessions(server)
    assert size(server) == (4, 4)
    assert runtime.requests[1:] == [(4, cession["metadata"]["name"])]
    (target,) = cession["status"]["targets"]
    assert target["step"] == runtime.status.step
    assert not target.get("forcedTime")
    assert target["askedTime"] <= target["cededTime"] <= target["releasedTime"]
    assert float(cession["status"]["secondsToReady"]) < 10
    assert cession["spec"]["reason"] == "ReclaimOwnQuota"


async def test_record_then_reservation_then_request_then_resize(server: ApiServer) -> None:
    teams = TwoTeams(server)
    order: list[str] = []
    server.admission_hook = lambda method, path, body: order.append(
        f"{method} {path.rsplit('/', 2)[-2]}"
    )
    async with gpt(teams) as runtime, leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(ended(server), COMPLETED)
    created = order.index("POST v1alpha1")
    reserved = order.index("PATCH clusterqueues")
    resized = order.index("PATCH jobs")
    assert created < reserved < resized
    assert [requested for requested, _ in runtime.requests].count(4) == 1


@pytest.mark.parametrize("part", ["scheduler.controller.plan", "scheduler.snapshot.snapshot.take"])
async def test_the_event_loop_runs_while_a_pass_is_computed(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """It renews the Lease and reads the answers of jobs. Here the computation waits for it."""
    loop, original = asyncio.get_running_loop(), pkgutil.resolve_name(part)
    has_run = list[bool]()

    def compute(*arguments: Any) -> Any:
        runs = threading.Event()
        loop.call_soon_threadsafe(runs.set)
        has_run.append(runs.wait(10))
        return original(*arguments)

    monkeypatch.setattr(part, compute)
    teams = TwoTeams(server)
    async with leading(server):
        await teams.until(lambda: bool(has_run), "a pass")
    assert all(has_run)


async def test_a_claim_on_more_jobs_than_one_cession_holds_has_an_event_that_says_so(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "MAX_TARGETS", 0)
    teams = TwoTeams(server)
    teams.job("research", "gpt", 8)
    uid = teams.job("vision", "inference", 4)
    clock = LeaderClock()
    async with server.client("cede-scheduler") as client:
        controller = Controller(client, asyncio.Event(), clock)
        async with controller.runtimes:
            tasks = [asyncio.create_task(cache.run()) for cache in controller.caches]
            await all_synced(controller.caches)
            await controller.reconcile()
            around, jobs = controller.look_around()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert cessions(server) == []
    first = next_round(around, jobs, {}, clock.now(), clock.led_since)
    later = clock.now() + HOLDS_S
    events = next_round(around, jobs, first.known, later, clock.led_since).events
    assert (uid, WaitReason.TOO_MANY_TARGETS) in [(event.uid, event.reason) for event in events]


# --- what can go wrong ----------------------------------------------------------------------------
async def test_a_stopped_job_runs_again_when_its_cession_is_deleted(server: ApiServer) -> None:
    teams = TwoTeams(server)
    teams.rigid("research", "rigid", 8, "JobSet")
    async with leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(lambda: bool(labels(server)), "the job to be stopped")
    for cession in cessions(server):
        server.remove(CESSIONS, ("", cession["metadata"]["name"]))
    server.remove(JOBS, ("vision", "inference"))
    async with leading(server):
        await teams.until(lambda: teams.kueue.used() == 8, "the stopped job to have quota again")
    assert labels(server) == {}


async def test_a_runtime_that_never_cedes_is_shrunk_at_the_deadline(server: ApiServer) -> None:
    teams = TwoTeams(server, grace_s=1)
    async with gpt(teams, polls_until_ceded=float("inf")), leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(ended(server), COMPLETED)
    assert cessions(server)[0]["status"]["targets"][0].get("forcedTime")


async def test_a_job_that_cannot_be_asked_is_shrunk_and_not_late(server: ApiServer) -> None:
    teams = TwoTeams(server, grace_s=0)
    teams.job("research", "gpt", 8, "2-8")
    teams.job("vision", "inference", 4)
    async with leading(server):
        await teams.until(ended(server), COMPLETED)
    (target,) = cessions(server)[0]["status"]["targets"]
    assert (size(server), "forcedTime" in target) == ((4, 4), False)


async def test_a_deleted_preemptor_cancels_and_the_target_keeps_its_size(
    server: ApiServer,
) -> None:
    """Its runtime is asked for its old size again."""
    teams = TwoTeams(server)
    async with gpt(teams, polls_until_ceded=float("inf")) as runtime, leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(
            lambda: any(requested == 4 for requested, _ in runtime.requests), "the size request"
        )
        server.remove(JOBS, ("vision", "inference"))
        await teams.until(ended(server, "Cancelled"), "the Cession to be cancelled")
        await teams.until(lambda: runtime.requests[-1] == (8, ""), "the request for the old size")
    assert size(server) == (8, 8)


async def test_a_strict_queue_that_cede_does_not_manage_is_left_alone(server: ApiServer) -> None:
    teams = TwoTeams(server)
    for name, cohort in (("theirs", "other"), ("guest", "cede")):
        spec: Json = {
            "cohortName": cohort,
            "queueingStrategy": "StrictFIFO",
            "resourceGroups": [],
        }
        server.put(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": spec})
    async with gpt(teams), leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(ended(server), COMPLETED)
    assert {strategy(server, name) for name in ("theirs", "guest")} == {"StrictFIFO"}


async def test_a_preemptor_is_not_requeued_while_its_record_cannot_be_written(
    server: ApiServer,
) -> None:
    """Each pass would have another time for it, and each write would begin another pass."""
    teams = TwoTeams(server)
    refused = 0

    def refuse_time(method: str, path: str, body: Any) -> web.Response | None:
        nonlocal refused
        if path.endswith("/status") and body.get("status", {}).get("reservedTime"):
            refused += 1
            return refusal(500, "InternalError", "etcd is slow")
        return None

    server.admission_hook = refuse_time
    async with gpt(teams), leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(lambda: refused > 3, "the status to be refused")
        written = {path for method, path, _ in server.bodies if method == "PATCH"}
        assert not [path for path in written if "/workloads/" in path]
        server.admission_hook = lambda method, path, body: None
        await teams.until(ended(server), COMPLETED)


async def test_a_job_that_cannot_be_resized_does_not_delay_others(server: ApiServer) -> None:
    teams = TwoTeams(server, grace_s=0)

    def refuse_stuck(method: str, path: str, body: Any) -> web.Response | None:
        if path.endswith("jobs/stuck"):
            return refusal(422, "Invalid", "completions: field is immutable")
        return None

    server.admission_hook = refuse_stuck
    teams.job("research", "stuck", 4, "2-4", priority=10)
    teams.job("research", "gpt", 4, "2-4")
    teams.job("vision", "inference", 4)
    async with leading(server):
        await teams.until(lambda: size(server) == (2, 2), "the other target to be resized")


async def test_a_job_grows_back_when_the_preemptor_has_ended(server: ApiServer) -> None:
    teams = TwoTeams(server)
    teams.configure(growCooldownSeconds=0)
    async with gpt(teams) as runtime, leading(server):
        teams.job("vision", "inference", 4)
        await teams.until(ended(server), COMPLETED)
        server.remove(JOBS, ("vision", "inference"))
        await teams.until(
            lambda: runtime.requests[-1] == (8, "") and len(server.objects(PODS)) == 8,
            "the job to have its old size",
        )
    assert size(server) == (8, 8)
    assert phases(server) == ["Completed"]
