"""The whole hand-over over real HTTP: an API server in memory, a little Kueue, a runtime that
signs; the scheduler killed in between."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cede.api.objects import CESSIONS, CLUSTER_QUEUES, JOBS, PODS, POLICIES, WORKLOADS, Json
from scheduler.__main__ import explain, picture, work
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.fakes.kueue import Cluster, Runtime

ADDRESS = "127.0.0.9"
GPT = ("research", "gpt")


@asynccontextmanager
async def leading(server: ApiServer) -> AsyncIterator[asyncio.Task[None]]:
    """A scheduler that leads for as long as the context lasts."""
    async with server.client("cede-scheduler") as client:
        task = asyncio.create_task(work(client))
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, ExceptionGroup):
                await task


def cessions(server: ApiServer) -> list[Json]:
    return sorted(server.objects(CESSIONS), key=lambda c: str(c["metadata"]["name"]))


def phases(server: ApiServer) -> list[str]:
    return [c.get("status", {}).get("phase", "Pending") for c in cessions(server)]


def size(server: ApiServer, job: tuple[str, str] = GPT) -> tuple[int, int]:
    spec = (server.get(JOBS, job) or {})["spec"]
    return spec["parallelism"], spec["completions"]


def strategy(server: ApiServer, queue: str = "vision") -> str:
    return str((server.get(CLUSTER_QUEUES, ("", queue)) or {})["spec"]["queueingStrategy"])


def active(server: ApiServer) -> set[str]:
    return {
        w["metadata"]["name"] for w in server.objects(WORKLOADS) if w["spec"].get("active", True)
    }


def done(server: ApiServer, phase: str = "Completed") -> Callable[[], bool]:
    return lambda: phases(server)[-1:] == [phase] and strategy(server) == "BestEffortFIFO"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


async def test_a_hand_over_from_the_claim_to_the_owners_running_pods(server: ApiServer) -> None:
    cluster = Cluster(server)
    async with (
        Runtime(
            ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8
        ) as runtime,
        leading(server),
    ):
        await cluster.until(lambda: runtime.asked == [(8, "")], "the runtime to be told its size")
        cluster.job("vision", "inference", 4)
        await cluster.until(done(server), "the owner to run")
    (cession,) = cessions(server)
    assert size(server) == (4, 4)
    assert runtime.asked[1:] == [(4, cession["metadata"]["name"])]
    (target,) = cession["status"]["targets"]
    assert target["step"] == runtime.status.step
    assert not target["forcedTime"]
    assert target["askedTime"] <= target["cededTime"] <= target["releasedTime"]
    assert float(cession["status"]["secondsToOwner"]) < 10


async def test_the_record_and_the_reservation_come_before_the_question_and_the_resize_after_the_answer(
    server: ApiServer,
) -> None:
    cluster = Cluster(server)
    order: list[str] = []
    server.admission_hook = lambda method, path, body: order.append(f"{method} {path.rsplit('/', 2)[-2]}")
    async with (
        Runtime(
            ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8
        ) as runtime,
        leading(server),
    ):
        cluster.job("vision", "inference", 4)
        await cluster.until(done(server), "the owner to run")
    created = order.index("POST v1alpha1")
    reserved = order.index("PATCH clusterqueues")
    resized = order.index("PATCH jobs")
    assert created < reserved < resized
    assert [asked for asked, _ in runtime.asked].count(4) == 1


def killed_after(
    server: ApiServer, writes: int, killed: asyncio.Event
) -> Callable[[str, str, Any], web.Response | None]:
    """Lets so many writes through and refuses all that follow: what it looks like when the process
    dies between two."""
    left = writes

    def before(method: str, path: str, body: Any) -> web.Response | None:
        nonlocal left
        left -= 1
        if left >= 0:
            return None
        killed.set()
        return refusal(500, "InternalError", "killed")

    return before


async def killed_and_followed(cluster: Cluster, writes: int, ends: Callable[[], bool]) -> None:
    server = cluster.server
    killed = asyncio.Event()
    server.admission_hook = killed_after(server, writes, killed)
    async with leading(server):
        await cluster.until(
            lambda: killed.is_set() or ends(), "the first leader to be done or dead"
        )
    server.admission_hook = lambda method, path, body: None
    async with leading(server):
        await cluster.until(
            ends, f"the next leader to finish what the first left after {writes} writes"
        )


@pytest.mark.parametrize("writes", range(13))
async def test_killed_between_any_two_writes_the_next_leader_ends_in_the_same_state(
    server: ApiServer, writes: int
) -> None:
    cluster = Cluster(server)
    async with Runtime(
        ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8
    ) as runtime:
        cluster.job("vision", "inference", 4)
        await killed_and_followed(cluster, writes, done(server))
        await cluster.until(
            lambda: runtime.status.wanted == 4 == runtime.status.size,
            "the runtime to be at its size",
        )
    assert phases(server) == ["Completed"]
    assert size(server) == (4, 4)
    assert active(server) == {"job-gpt", "job-inference"}
    assert not cessions(server)[0]["status"]["targets"][0]["forcedTime"]


@pytest.mark.parametrize("writes", range(13))
async def test_killed_between_any_two_writes_of_a_stop_what_was_stopped_may_come_back(
    server: ApiServer, writes: int
) -> None:
    cluster = Cluster(server)
    cluster.job("research", "rigid", 8)
    cluster.job("vision", "inference", 4)
    await killed_and_followed(cluster, writes, done(server))
    await cluster.until(
        lambda: active(server) == {"job-rigid", "job-inference"}, "both to be active"
    )
    assert phases(server) == ["Completed"], "what comes back takes nothing back"


async def test_a_runtime_that_does_not_answer_has_nothing_to_lose_and_is_shrunk_at_the_deadline(
    server: ApiServer,
) -> None:
    cluster = Cluster(server, grace_s=0)
    cluster.job("research", "gpt", 8, "2-8", "127.0.0.10")
    cluster.job("vision", "inference", 4)
    async with leading(server):
        await cluster.until(done(server), "the owner to run")
    assert size(server) == (4, 4)
    assert cessions(server)[0]["status"]["targets"][0]["forcedTime"]


async def test_a_claimant_deleted_half_way_cancels_and_the_job_is_asked_back(
    server: ApiServer,
) -> None:
    cluster = Cluster(server)
    uid = cluster.job("research", "gpt", 8, "2-8", ADDRESS)
    async with (
        Runtime(ADDRESS, "research", uid, 8, patience=float("inf")) as runtime,
        leading(server),
    ):
        cluster.job("vision", "inference", 4)
        await cluster.until(
            lambda: any(asked for asked in runtime.asked if asked[0] == 4),
            "the runtime to be asked",
        )
        server.remove(JOBS, ("vision", "inference"))
        await cluster.until(done(server, "Cancelled"), "the Cession to be cancelled")
        await cluster.until(lambda: runtime.asked[-1] == (8, ""), "the job to be asked back")
    assert size(server) == (8, 8)


async def test_mode_observe_takes_nothing_back(server: ApiServer) -> None:
    cluster = Cluster(server)
    policy = server.get(POLICIES, ("", "default")) or {}
    server.put(POLICIES, policy | {"spec": policy["spec"] | {"mode": "Observe"}})
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    server.put(CLUSTER_QUEUES, queue | {"spec": queue["spec"] | {"queueingStrategy": "StrictFIFO"}})
    async with (
        Runtime(
            ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8
        ) as runtime,
        leading(server),
    ):
        cluster.job("vision", "inference", 4)
        await cluster.until(
            lambda: runtime.asked == [(8, "")] and strategy(server) == "BestEffortFIFO",
            "a pass with the claim in sight",
        )
    assert cessions(server) == []
    assert size(server) == (8, 8)


async def test_a_strict_queue_that_is_not_ours_is_left_alone(server: ApiServer) -> None:
    cluster = Cluster(server)
    for name in ("theirs", "guest"):
        spec: Json = {
            "cohortName": "cede" if name == "guest" else "other",
            "queueingStrategy": "StrictFIFO",
            "resourceGroups": [],
        }
        server.put(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": spec})
    async with (
        Runtime(ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8),
        leading(server),
    ):
        cluster.job("vision", "inference", 4)
        await cluster.until(done(server), "the owner to run")
    assert {strategy(server, name) for name in ("theirs", "guest")} == {"StrictFIFO"}


async def test_a_job_that_cannot_be_resized_is_no_ones_obstacle_but_its_own(
    server: ApiServer,
) -> None:
    cluster = Cluster(server, grace_s=0)

    def before(method: str, path: str, body: Any) -> web.Response | None:
        return (
            refusal(422, "Invalid", "completions: field is immutable")
            if path.endswith("jobs/stuck")
            else None
        )

    server.admission_hook = before
    cluster.job("research", "stuck", 4, "2-4", "127.0.0.10", priority=10)
    cluster.job("research", "gpt", 4, "2-4", "127.0.0.10")
    cluster.job("vision", "inference", 4)
    async with leading(server):
        await cluster.until(lambda: size(server) == (2, 2), "the other victim to be resized")


async def test_a_job_grows_back_when_the_owner_is_done(server: ApiServer) -> None:
    cluster = Cluster(server)
    policy = server.get(POLICIES, ("", "default")) or {}
    server.put(
        POLICIES,
        policy
        | {"spec": {"preemption": policy["spec"]["preemption"] | {"growCooldownSeconds": 0}}},
    )
    async with (
        Runtime(
            ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8
        ) as runtime,
        leading(server),
    ):
        cluster.job("vision", "inference", 4)
        await cluster.until(done(server), "the owner to run")
        server.remove(JOBS, ("vision", "inference"))
        await cluster.until(
            lambda: runtime.asked[-1] == (8, "") and len(server.objects(PODS)) == 8,
            "the job to be back at its size",
        )
    assert size(server) == (8, 8)
    assert phases(server) == ["Completed"]


async def test_a_picture_of_it_explains_the_plan_anywhere(
    server: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(server)
    async with (
        Runtime(ADDRESS, "research", cluster.job("research", "gpt", 8, "2-8", ADDRESS), 8),
        server.client() as client,
    ):
        cluster.job("vision", "inference", 4)
        text = await picture(client)
    assert server.writes() == []
    file = tmp_path / "seen.json"
    file.write_text(text)
    explain(str(file))
    printed = capsys.readouterr().out
    assert printed.startswith(
        "inference (vision) takes back its own: it lacks 4 nvidia.com/gpu; gpt (research) "
        "shrinks "
        "from 8 to 4\nOpen "
    )
    assert "Ask job=research/gpt size=8" in printed, "what its runtime said is in the picture"
