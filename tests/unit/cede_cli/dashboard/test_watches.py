"""What the page reads: with all rights, with some, with none, and while the server is lost."""

import asyncio

import pytest

from cede.api import job_progress
from cede.api.job_progress import Progress, ProgressConfigMap, read
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    CONFIG_MAPS,
    JOBS,
    LEASES,
    POLICIES,
    WORKLOADS,
    Json,
)
from cede.dashboard import watches
from cede.dashboard.view import MAX_WATCHED
from cede.kube.backoff import Backoff
from tests.builders.shared_cluster import allocation, job, put_jobs, put_note, put_progress
from tests.builders.take_backs import cession
from tests.fakes.access import reviews
from tests.fakes.api_faults import drops, refuses
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import Reader
from tests.unit.cede_cli.dashboard.conftest import dashboard


async def test_everything_is_read_once_and_then_watched(server: ApiServer, reader: Reader) -> None:
    put_jobs(server, job("speech", "new", 1))
    await reader.until("jobs", "speech/new/Job", state="Running")
    for kind in (JOBS, WORKLOADS, CESSIONS, ALLOCATIONS, POLICIES):
        assert server.requests.count(("GET", kind.path())) == 1
        assert server.requests.count(("WATCH", kind.path())) == 1
    assert {path for method, path in server.requests if method == "POST"} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    }


async def test_who_made_a_job_inactive_is_shown(server: ApiServer, reader: Reader) -> None:
    body, workload = job("speech", "new", 1)
    fields: Json = {"f:spec": {"f:active": {}}}
    writer = {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": fields}
    workload["metadata"]["managedFields"] = [writer]
    workload["spec"]["active"] = False
    put_jobs(server, (body, workload))
    row = await reader.until("jobs", "speech/new/Job", reason="DeactivatedByHand")
    assert "kubectl-edit wrote that" in row["why"]


async def test_a_member_sees_all_teams_and_the_jobs_of_their_own(server: ApiServer) -> None:
    server.admission_hook = reviews(("research",))
    refused = refuses(403, "Forbidden")
    server.script("GET", LEASES.path(namespace="cede-system"), *[refused] * 100)
    async with dashboard(server) as reader:
        page = await reader.page()
    cluster = page["cluster"]["cluster"]
    assert set(page["teams"]) == {"vision", "research", "speech", "robotics"}
    assert {row["namespace"] for row in page["jobs"].values()} == {"research"}
    assert cluster["rights"] == (
        "Not shown, because you may not read it: leases; the jobs in robotics, speech, vision."
    )
    # the one in the policy's status
    assert (cluster["leader"], cluster["attention"]) == ("scheduler-1", [])
    assert ("GET", JOBS.path()) not in server.requests
    assert ("GET", JOBS.path(namespace="vision")) not in server.requests


async def test_without_any_right_the_page_says_so(server: ApiServer) -> None:
    server.admission_hook = reviews(())
    for path in (
        *(kind.path() for kind in (POLICIES, ALLOCATIONS, CESSIONS)),
        "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
        LEASES.path(namespace="cede-system"),
    ):
        server.script("GET", path, *[refuses(403, "Forbidden")] * 100)
    async with dashboard(server) as reader:
        page = await reader.page()
    assert (page["teams"], page["jobs"], page["takes"]) == ({}, {}, {})
    assert page["cluster"]["cluster"]["rights"] == (
        "Not shown, because you may not read it: cessions; clusterpolicies; clusterqueues; "
        "computeallocations; leases."
    )
    assert page["cluster"]["cluster"]["attention"] == []


async def test_who_may_read_very_many_namespaces_one_by_one_sees_the_first(
    server: ApiServer,
) -> None:
    """With four connections for each, none would be left to ask whether the server answers."""
    many = [f"t-{number:02}" for number in range(60)]
    for team in many:
        server.put(ALLOCATIONS, allocation(team))
        put_jobs(server, job(team, "it", 1))
    server.admission_hook = reviews(many)
    async with dashboard(server) as reader:
        page = await reader.page()
    shown = {row["namespace"] for row in page["jobs"].values()}
    assert shown == set(many[:MAX_WATCHED])
    assert page["cluster"]["cluster"]["rights"].endswith(
        "a page watches 21 namespaces one by one at most: the jobs in t-21, t-22, t-23 and 36 more."
    )


async def test_a_step_of_a_job_is_shown_when_it_is_noted(server: ApiServer, reader: Reader) -> None:
    put_jobs(server, job("speech", "new", 1))
    put_progress(server, "speech", "new", step=4, loss=2.5, saved_step=3, saved=1)
    row = await reader.until("jobs", "speech/new/Job", step=4)
    assert (row["loss"], row["saved_step"], row["saved"]) == (2.5, 3, "1970-01-01T00:00:01Z")
    put_progress(server, "speech", "new", step=5)
    await reader.until("jobs", "speech/new/Job", step=5)


async def test_only_notes_that_have_changed_are_parsed_again(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = list[str]()

    def note(config_map: ProgressConfigMap) -> Progress | None:
        parsed.append(config_map.metadata.namespace)
        return read(config_map)

    monkeypatch.setattr(job_progress, "read", note)
    put_jobs(server, job("speech", "new", 1), job("robotics", "new", 1))
    put_progress(server, "speech", "new", step=4)
    put_progress(server, "robotics", "new", step=7)
    async with dashboard(server) as reader:
        await reader.until("jobs", "robotics/new/Job", step=7)
        await reader.until("jobs", "speech/new/Job", step=4)
        parsed.clear()
        put_progress(server, "speech", "new", step=5)
        await reader.until("jobs", "speech/new/Job", step=5)
        # another object changes, and no note
        put_jobs(server, job("speech", "later", 1))
        await reader.until("jobs", "speech/later/Job", state="Running")
    assert parsed == ["speech"]


async def test_who_may_not_watch_the_notes_sees_the_jobs_and_asks_for_none(
    server: ApiServer,
) -> None:
    server.admission_hook = reviews(("research",), without=(CONFIG_MAPS,))
    async with dashboard(server) as reader:
        page = await reader.page()
    # the step of a job that has ceded, and nothing of the others
    assert {row["step"] for row in page["jobs"].values()} == {4120, None}
    assert CONFIG_MAPS.path(namespace="research") not in {path for _, path in server.requests}


async def test_a_note_that_nobody_can_read_is_named_and_hides_no_job(server: ApiServer) -> None:
    put_note(server, "research", "step 12")
    async with dashboard(server) as reader:
        page = await reader.page()
    assert any(row["namespace"] == "research" for row in page["jobs"].values())
    attention = page["cluster"]["cluster"]["attention"]
    assert any("ConfigMap research/cede-progress" in sentence for sentence in attention)


async def test_jobs_that_found_no_room_in_the_note_are_counted(server: ApiServer) -> None:
    put_note(server, "research", Progress(left_out=37).text())
    async with dashboard(server) as reader:
        page = await reader.page()
    attention = page["cluster"]["cluster"]["attention"]
    assert any("research: how far 37 jobs are is not known" in sentence for sentence in attention)


async def test_the_jobs_of_a_team_that_is_new_are_read(server: ApiServer) -> None:
    server.admission_hook = reviews(("research", "newcomers"))
    async with dashboard(server) as reader:
        put_jobs(server, job("newcomers", "first", 1))
        server.put(ALLOCATIONS, allocation("newcomers"))
        await reader.until("jobs", "newcomers/first/Job", state="Running")


async def test_jobs_that_may_not_be_read_any_more_are_not_shown(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "RIGHTS_S", 0.05)
    async with dashboard(server) as reader:
        server.admission_hook = reviews(())
        await reader.until(
            "cluster",
            "cluster",
            rights="Not shown, because you may not read it: "
            "the jobs in research, robotics, speech and 1 more.",
        )
        assert (await reader.page())["jobs"] == {}


async def test_a_server_that_is_lost_is_named_and_its_return_too(server: ApiServer) -> None:
    async with dashboard(server) as reader:
        server.script("GET", "/version", *[drops()] * 2)
        async for _, _, data in reader.changes(0):
            cluster = data.get("cluster", {}).get("set", {}).get("cluster", {})
            if cluster.get("trouble", "").startswith("the API server is not reachable: "):
                break
        await reader.until("cluster", "cluster", trouble="")
        # what was there stays
        assert "research/gpt-7b/Job" in (await reader.page())["jobs"]
        server.put(CESSIONS, cession("after", "vision/detector", ("speech/tts", 6, 2)))
        await reader.until("takes", "after", phase="Completed")


async def test_a_kind_that_the_server_cannot_list_is_named_and_not_taken_for_a_missing_right(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "BACKOFF", Backoff(initial_s=0.02, max_s=0.02))
    fault = refuses(500, "InternalError", "no conversion")
    server.script("GET", CLUSTER_QUEUES.path(), *[fault] * 999)
    async with dashboard(server) as reader:
        async with asyncio.timeout(20):
            # no event tells of it if the page had it before it was read
            cluster = (await reader.page())["cluster"]["cluster"]
            while not cluster["trouble"]:
                await asyncio.sleep(0.05)
                cluster = (await reader.page())["cluster"]["cluster"]
        assert cluster["trouble"].startswith("clusterqueues cannot be read: ")
        assert "no conversion" in cluster["trouble"]
        assert cluster["rights"] == ""


async def test_what_is_not_brought_up_to_date_any_more_is_named(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the right to watch was withdrawn, while the server still answers."""
    async with dashboard(server) as reader:
        assert (await reader.page())["cluster"]["cluster"]["trouble"] == ""
        monkeypatch.setattr(watches, "STALE_S", 0.0)
        async for _, _, data in reader.changes(0):
            cluster = data.get("cluster", {}).get("set", {}).get("cluster", {})
            if "sends nothing more about cessions, " in cluster.get("trouble", ""):
                break
        monkeypatch.setattr(watches, "STALE_S", 180.0)
        await reader.until("cluster", "cluster", trouble="")


async def test_an_object_that_cannot_be_read_is_named_and_the_others_are_shown(
    server: ApiServer,
) -> None:
    server.put(CESSIONS, {"metadata": {"name": "newer"}, "spec": 1})
    async with dashboard(server) as reader:
        page = await reader.page()
    (problem,) = page["cluster"]["cluster"]["attention"]
    assert problem.startswith("this cede cannot read Cession newer: ")
    assert len(page["takes"]) == 4
