"""A whole Cession over real HTTP, with the scheduler killed between any two writes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    CESSIONS,
    CLUSTER_QUEUES,
    JOBS,
    PODS,
    WORKLOADS,
    Json,
)
from scheduler.cession import reservation
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.fakes.runtime import Runtime, loopback_address
from tests.harness.scheduler import TwoTeams, leading

pytestmark = pytest.mark.slow

ADDRESS = loopback_address(1)
GPT = ("research", "gpt")
COMPLETED = "the preemptor's pods to be ready"


@pytest.fixture(autouse=True)
def kueue_wakes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The double looks at all Workloads in each pass, so nothing has to wait for its batch."""
    monkeypatch.setattr(reservation, "WAKE_S", 0.0)


def gpt(teams: TwoTeams, polls_until_ceded: float = 2) -> Runtime:
    """An elastic job of research that uses all eight accelerators, and its runtime."""
    uid = teams.job("research", "gpt", 8, "2-8", ADDRESS)
    return Runtime(ADDRESS, "research", uid, 8, polls_until_ceded)


def cessions(server: ApiServer) -> list[Json]:
    return sorted(server.objects(CESSIONS), key=lambda cession: str(cession["metadata"]["name"]))


def phases(server: ApiServer) -> list[str]:
    return [cession.get("status", {}).get("phase", "Pending") for cession in cessions(server)]


def size(server: ApiServer, job: tuple[str, str] = GPT) -> tuple[int, int]:
    spec = (server.get(JOBS, job) or {})["spec"]
    return spec["parallelism"], spec["completions"]


def strategy(server: ApiServer, queue: str = "vision") -> str:
    return str((server.get(CLUSTER_QUEUES, ("", queue)) or {})["spec"]["queueingStrategy"])


def set_strategy(server: ApiServer, queue: str, strategy: str) -> None:
    body = server.get(CLUSTER_QUEUES, ("", queue)) or {}
    spec = body["spec"] | {"queueingStrategy": strategy}
    server.put(CLUSTER_QUEUES, body | {"spec": spec})


def active(server: ApiServer) -> set[str]:
    return {
        workload["metadata"]["name"]
        for workload in server.objects(WORKLOADS)
        if workload["spec"].get("active", True)
    }


def labels(server: ApiServer) -> dict[str, str]:
    """By Workload: the Cession that it was stopped for."""
    workloads = [workload["metadata"] for workload in server.objects(WORKLOADS)]
    return {
        metadata["name"]: metadata["labels"][names.STOPPED_FOR]
        for metadata in workloads
        if names.STOPPED_FOR in metadata.get("labels", {})
    }


def ended(server: ApiServer, phase: str = "Completed") -> Callable[[], bool]:
    """Whether the last Cession has this phase and the queue is restored."""
    return lambda: phases(server)[-1:] == [phase] and strategy(server) == "BestEffortFIFO"


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


# --- killed between two writes --------------------------------------------------------------------
def killed_after(
    writes: int, killed: asyncio.Event
) -> Callable[[str, str, Any], web.Response | None]:
    """Refuse all writes but the first: so it looks when the process dies between two."""
    left = writes

    def hook(method: str, path: str, body: Any) -> web.Response | None:
        nonlocal left
        left -= 1
        if left >= 0:
            return None
        killed.set()
        return refusal(500, "InternalError", "killed")

    return hook


async def kill_and_follow(teams: TwoTeams, writes: int, is_ended: Callable[[], bool]) -> None:
    """The first leader dies after this number of writes; the next one ends what it began."""
    server = teams.server
    killed = asyncio.Event()
    server.admission_hook = killed_after(writes, killed)
    async with leading(server):
        await teams.until(lambda: killed.is_set() or is_ended(), "the first leader's end")
    server.admission_hook = lambda method, path, body: None
    async with leading(server):
        await teams.until(is_ended, f"the next leader to end what was left after {writes} writes")


@pytest.mark.parametrize("writes", range(13))
async def test_a_shrink_ends_in_the_same_state_after_any_write(
    server: ApiServer, writes: int
) -> None:
    teams = TwoTeams(server)
    async with gpt(teams) as runtime:
        teams.job("vision", "inference", 4)
        await kill_and_follow(teams, writes, ended(server))
        await teams.until(
            lambda: runtime.status.wanted == 4 == runtime.status.size, "the runtime's new size"
        )
    assert phases(server) == ["Completed"]
    assert size(server) == (4, 4)
    assert active(server) == {"job-gpt", "job-inference"}
    assert not cessions(server)[0]["status"]["targets"][0].get("forcedTime")


@pytest.mark.parametrize("writes", range(13))
async def test_a_stopped_job_may_run_again_after_any_write(server: ApiServer, writes: int) -> None:
    teams = TwoTeams(server)
    teams.job("research", "rigid", 8)
    teams.job("vision", "inference", 4)
    await kill_and_follow(teams, writes, ended(server))
    await teams.until(
        lambda: active(server) == {"job-rigid", "job-inference"}, "both Workloads to be active"
    )
    assert phases(server) == ["Completed"], "the stopped job preempts nothing"
    assert labels(server) == {}


KINDS_AND_WRITES = [
    *(("JobSet", writes) for writes in range(13)),
    *((kind, 4) for kind in ("TrainJob", "PodGroup", "LeaderWorkerSet", "Deployment")),
    *((kind, 6) for kind in ("TrainJob", "PodGroup", "LeaderWorkerSet", "Deployment")),
]


@pytest.mark.parametrize(("kind", "writes"), KINDS_AND_WRITES)
async def test_a_stopped_job_of_any_kind_may_run_again_after_any_write(
    server: ApiServer, kind: str, writes: int
) -> None:
    teams = TwoTeams(server)
    teams.rigid("research", "rigid", 8, kind)
    teams.job("vision", "inference", 4)
    await kill_and_follow(teams, writes, ended(server))
    await teams.until(
        lambda: active(server) == {"job-rigid", "job-inference"}, "both Workloads to be active"
    )
    server.remove(JOBS, ("vision", "inference"))
    await teams.until(lambda: teams.kueue.used() == 8, "the stopped job to have quota again")
    assert phases(server) == ["Completed"], "the stopped job preempts nothing"
    assert labels(server) == {}


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


# --- what can go wrong ----------------------------------------------------------------------------
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
