"""`cede jobs` against an API server over real HTTP."""

import json

import pytest
import yaml

from cede.api import names
from cede.api.job_progress import JobProgress, Progress
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    JOBS,
    LOCAL_QUEUES,
    POLICIES,
    PRIORITY_CLASSES,
    WORKLOADS,
)
from tests.builders.reports import stopping_cession
from tests.builders.shared_cluster import put_note
from tests.fakes.api_faults import drops, refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer
from tests.unit.cede_cli.conftest import Run


@pytest.fixture(autouse=True)
async def two_teams(server: ApiServer) -> None:
    """Elastic Job `gpt` of research runs on 2 of 8 pods; `claim` of vision waits."""
    annotations = {names.SIZES: "2-8", names.DESIRED_SIZE: "8"}
    put_job(server, "research", "gpt", 2, annotations)
    put_job(server, "vision", "claim", 4, {})
    put_workload(server, "research", "gpt", admitted=True)
    put_workload(server, "vision", "claim", admitted=False)
    queue = {"metadata": {"name": "default", "namespace": "vision"}}
    server.put(LOCAL_QUEUES, queue | {"spec": {"clusterQueue": "vision"}})


def put_job(
    server: ApiServer, namespace: str, name: str, size: int, annotations: dict[str, str]
) -> None:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    labels = {names.QUEUE_NAME: "default"}
    body = {"metadata": {**metadata, "labels": labels, "uid": name}}
    server.put(JOBS, body | {"spec": {"parallelism": size, "completions": size}})


def put_workload(server: ApiServer, namespace: str, job: str, *, admitted: bool) -> None:
    owner = {"kind": "Job", "name": job, "uid": job, "controller": True}
    metadata = {"name": f"job-{job}", "namespace": namespace, "ownerReferences": [owner]}
    class_ref = {"name": "training", "kind": "WorkloadPriorityClass"}
    spec = {"priorityClassRef": class_ref, "priority": 50, "podSets": [{"count": 4}]}
    spec["queueName"] = "default"
    pending = {"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}
    status: dict[str, object] = {"conditions": [pending]}
    if admitted:
        status = {
            "conditions": [{"type": "Admitted", "status": "True"}],
            "admission": {"clusterQueue": namespace, "podSetAssignments": [{"count": 2}]},
        }
    server.put(WORKLOADS, {"metadata": metadata, "spec": spec, "status": status})


async def test_the_namespace_of_the_context_is_the_default(cede: Run) -> None:
    code, text, _ = await cede("jobs")
    assert code == 0
    heading, row = text.splitlines()
    assert heading.split()[:4] == ["NAME", "STATE", "SIZE", "DESIRED"]
    cells = ["claim", "Waiting", "0", "4", "-", "-", "-", "-", "-", "gentle", "stop", "training"]
    assert row.split() == [*cells, "Kueue", "reports:", "insufficient", "quota."]


async def test_the_reason_is_a_constant_that_can_be_counted(cede: Run) -> None:
    _, text, _ = await cede("jobs", "-o", "json")
    assert [row["reason"] for row in json.loads(text)] == ["OtherMessage"]


async def test_jobs_are_shown_to_a_user_who_may_read_nothing_that_is_shared(
    server: ApiServer, cede: Run
) -> None:
    for kind in (POLICIES, ALLOCATIONS, CESSIONS, CLUSTER_QUEUES, COHORTS, PRIORITY_CLASSES):
        server.script("GET", kind.path(), refuses(403, "Forbidden"))
    code, text, errors = await cede("jobs")
    assert (code, "Kueue reports: insufficient quota." in text) == (0, True)
    assert errors == (
        "cede: you may not list cessions, clusterpolicies, clusterqueues, cohorts, "
        "computeallocations, workloadpriorityclasses, so this answer knows less than it could\n"
    )


# --- how far they are -----------------------------------------------------------------------------
GPT = Progress({"gpt": JobProgress(answered=1, step=1200, loss=2.5, saved_step=1180)}).text()


@pytest.mark.parametrize("place", [["-n", "research"], ["-A"]])
async def test_what_the_scheduler_noted_of_a_job_is_shown(
    server: ApiServer, cede: Run, place: list[str]
) -> None:
    put_note(server, "research", GPT)
    put_note(server, "vision", GPT)
    _, text, errors = await cede("jobs", *place, "-o", "json")
    [row] = [row for row in json.loads(text) if row["name"] == "gpt"]
    assert (row["step"], row["loss"], row["saved_step"]) == (1200, 2.5, 1180)
    assert (row["reported"], errors) == ("1970-01-01T00:00:01Z", "")
    _, text, _ = await cede("explain", "gpt", "-n", "research")
    assert "Its runtime reported step 1200 with loss 2.5" in text


async def test_a_note_that_nobody_can_read_hides_no_job(server: ApiServer, cede: Run) -> None:
    put_note(server, "research", "step 12")
    code, text, errors = await cede("jobs", "-A")
    assert (code, len(text.splitlines())) == (0, 3)
    assert errors == (
        "cede: this cede cannot read ConfigMap research/cede-progress: jobs is not what the "
        "scheduler notes: use the version that wrote it\n"
    )


@pytest.mark.parametrize("command", [["jobs", "-A"], ["explain", "gpt", "-n", "research"]])
async def test_jobs_that_found_no_room_in_the_note_are_counted(
    server: ApiServer, cede: Run, command: list[str]
) -> None:
    put_note(server, "research", Progress(left_out=37).text())
    code, _, errors = await cede(*command)
    assert code == 0
    assert errors.startswith("cede: namespace research: how far 37 jobs are is not known")


async def test_who_may_not_list_the_notes_sees_the_jobs(server: ApiServer, cede: Run) -> None:
    put_note(server, "research", GPT)
    path = CONFIG_MAPS.path(namespace="research")
    server.script("GET", path, refuses(403, "Forbidden"))
    _, text, errors = await cede("jobs", "-n", "research", "-o", "json")
    assert [(row["name"], row["step"]) for row in json.loads(text)] == [("gpt", None)]
    assert errors == "cede: you may not list configmaps, so this answer knows less than it could\n"


async def test_a_namespace_without_jobs(cede: Run) -> None:
    assert (await cede("jobs", "-n", "nobody"))[1] == "no jobs in nobody\n"


async def test_all_namespaces_as_wide_table(cede: Run) -> None:
    _, text, _ = await cede("jobs", "-A", "-o", "wide")
    heading, *rows = text.splitlines()
    assert heading.startswith("NAMESPACE  KIND  NAME")
    assert rows[0].startswith("research   Job   gpt    Running  2     8        2-8")
    assert "training (50)" in rows[0]


@pytest.mark.parametrize("output", ["json", "yaml"])
async def test_all_namespaces_for_programs(cede: Run, output: str) -> None:
    _, text, _ = await cede("jobs", "-A", "-o", output)
    facts = json.loads(text) if output == "json" else yaml.safe_load(text)
    assert [(row["name"], row["size"], row["step"]) for row in facts] == [
        ("gpt", 2, None),
        ("claim", 0, None),
    ]


async def test_names_are_what_kubectl_takes(cede: Run) -> None:
    assert (await cede("jobs", "-o", "name", "-n", "research"))[1] == "job/gpt\n"


async def test_nothing_is_written(server: ApiServer, cede: Run) -> None:
    server.put(CESSIONS, stopping_cession())
    assert (await cede("jobs", "-A"))[0] == 0
    assert not server.writes()


async def test_watch_prints_again_when_something_has_changed(
    server: ApiServer, cede: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third look finds what the second found, and the fourth is the user's Ctrl-C."""
    looks = 0

    async def next_look(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            put_job(server, "vision", "second", 1, {})
        if looks == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("cede.commands.watching.sleep", next_look)
    code, text, _ = await cede("jobs", "--watch", "-o", "name")
    assert code == 130
    assert text.splitlines() == ["job/claim", "job/claim", "job/second"]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        pytest.param(drops(), "the API server is not reachable", id="a broken connection"),
        pytest.param(refuses(503, "ServiceUnavailable"), "503 ServiceUnavailable", id="it starts"),
        pytest.param(refuses(429, "TooManyRequests"), "429 TooManyRequests", id="it is busy"),
    ],
)
async def test_watch_goes_on_after_a_fault_of_the_api_server(
    server: ApiServer,
    cede: Run,
    monkeypatch: pytest.MonkeyPatch,
    fault: Answer,
    sentence: str,
) -> None:
    """The second and the third look fail, and the fourth finds another job."""
    looks = 0

    async def next_look(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            server.script("GET", JOBS.path(namespace="vision"), fault, fault)
            put_job(server, "vision", "second", 1, {})
        if looks == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("cede.commands.watching.sleep", next_look)
    code, text, errors = await cede("jobs", "--watch", "-o", "name")
    assert code == 130
    assert text.splitlines() == ["job/claim", "job/claim", "job/second"]
    assert sum(sentence in line for line in errors.splitlines()) == 1


async def test_watch_ends_when_the_user_may_not_read_the_jobs(
    server: ApiServer, cede: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def next_look(_: float) -> None:
        server.script("GET", JOBS.path(namespace="vision"), refuses(403, "Forbidden"))

    monkeypatch.setattr("cede.commands.watching.sleep", next_look)
    code, text, _ = await cede("jobs", "--watch", "-o", "name")
    assert (code, text) == (1, "job/claim\n")


async def test_a_cession_that_cannot_be_read_is_named_and_the_jobs_are_shown(
    server: ApiServer, cede: Run
) -> None:
    server.put(CESSIONS, {"metadata": {"name": "newer"}, "spec": 1})
    code, text, errors = await cede("jobs", "-o", "name")
    assert (code, text) == (0, "job/claim\n")
    assert errors.startswith("cede: this cede cannot read Cession newer: ")
