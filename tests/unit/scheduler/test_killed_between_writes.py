"""The scheduler is killed between any two writes, and the next leader ends in the same state."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, PODS, WORKLOADS
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.harness.scheduler import TwoTeams, leading
from tests.harness.two_teams import active, cessions, ended, gpt, labels, phases, size

pytestmark = pytest.mark.slow


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


async def kill_and_follow(
    teams: TwoTeams,
    writes: int,
    is_ended: Callable[[], bool],
    happens: Callable[[], None] = lambda: None,
) -> None:
    """The first leader dies after this number of writes; the next one ends what it began.
    `happens`: in the time between."""
    server = teams.server
    killed = asyncio.Event()
    server.admission_hook = killed_after(writes, killed)
    async with leading(server):
        await teams.until(lambda: killed.is_set() or is_ended(), "the first leader's end")
    server.admission_hook = lambda method, path, body: None
    happens()
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


# --- a guard --------------------------------------------------------------------------------------
def past_its_own(server: ApiServer, claimed: int = 4) -> TwoTeams:
    """`claim` stops `low` of its own team: what that frees, `thief` of the other would borrow."""
    teams = TwoTeams(server)
    teams.job("vision", "low", 4, priority=10)
    teams.job("research", "neighbor", 4, priority=99)
    teams.job("research", "thief", 4, priority=95)
    teams.job("vision", "claim", claimed, priority=90)
    return teams


def left_of_guards(server: ApiServer) -> list[str]:
    """What keeps capacity for a preemptor."""
    bodies = [
        body for kind in (JOBS, LOCAL_QUEUES, CLUSTER_QUEUES) for body in server.objects(kind)
    ]
    return [
        body["metadata"]["name"]
        for body in bodies
        if names.GUARD in body["metadata"].get("labels", {})
        or names.PRIVATE_QUOTA in body["metadata"].get("annotations", {})
    ]


def is_over(server: ApiServer) -> Callable[[], bool]:
    """Whether the preemptor runs, and nothing is kept for it any more."""
    completed = ended(server)
    return lambda: completed() and not left_of_guards(server)


def stop_guards(server: ApiServer) -> None:
    """As Kueue does at their time limit."""
    for workload in server.objects(WORKLOADS):
        if workload["metadata"]["namespace"] == names.GUARD_NAMESPACE:
            server.put(WORKLOADS, workload | {"spec": workload["spec"] | {"active": False}})


def check_past_its_own(server: ApiServer) -> None:
    """A guard was made, and `low`, which was stopped, waits again."""
    assert ("POST", JOBS.path(namespace=names.GUARD_NAMESPACE)) in server.requests
    assert phases(server) == ["Completed"]
    assert active(server) == {"job-claim", "job-low", "job-neighbor", "job-thief"}
    assert labels(server) == {}


def running(server: ApiServer) -> set[str]:
    return {pod["metadata"]["name"].rsplit("-", 1)[0] for pod in server.objects(PODS)}


@pytest.mark.parametrize("writes", range(22))
async def test_a_preemptor_with_a_guard_runs_and_nothing_is_kept_after_any_write(
    server: ApiServer, writes: int
) -> None:
    """Also between the three writes that make a guard, and the three that delete it."""
    await kill_and_follow(past_its_own(server), writes, is_over(server))
    check_past_its_own(server)
    assert running(server) == {"claim", "neighbor"}


@pytest.mark.parametrize("writes", range(3, 22))
async def test_the_same_if_kueue_ends_the_guard_before_the_next_leader_comes(
    server: ApiServer, writes: int
) -> None:
    """The quota_controller, which changes private quota back meanwhile, is not in this world: there
    `thief` may get what the guard kept."""
    teams = past_its_own(server)
    await kill_and_follow(teams, writes, is_over(server), lambda: stop_guards(server))
    check_past_its_own(server)
    assert "claim" in running(server)


@pytest.mark.parametrize("writes", [3, 4])
async def test_the_same_if_a_guard_was_begun_for_another_size(
    server: ApiServer, writes: int
) -> None:
    """The user changes the job that waits before the guard has its Job."""
    teams = past_its_own(server, claimed=3)
    edit = partial(teams.edit, "vision", "claim", 4)
    await kill_and_follow(teams, writes, is_over(server), edit)
    check_past_its_own(server)
    assert running(server) == {"claim", "neighbor"}
