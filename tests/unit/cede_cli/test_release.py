"""`cede release` against an API server over real HTTP."""

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    JOBS,
    LEADER_WORKER_SETS,
    PODS,
    POLICIES,
    WORKLOADS,
    Json,
    Kind,
    rfc3339,
)
from cede.api.private_quota import Original, PrivateQuota
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import refusal
from tests.unit.cede_cli.conftest import Run

STOCK = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def preemption(server: ApiServer, name: str) -> tuple[Json, str]:
    queue = server.get(CLUSTER_QUEUES, ("", name)) or {}
    return queue["spec"]["preemption"], queue["spec"]["queueingStrategy"]


# --- release --------------------------------------------------------------------------------------
async def test_release_enables_kueues_preemption_in_our_queues_only(
    server: ApiServer, cede: Run
) -> None:
    code, text, _ = await cede("release")
    assert code == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")
    assert preemption(server, "research") == (STOCK, "BestEffortFIFO")
    assert preemption(server, "theirs")[1] == "StrictFIFO"
    assert (server.get(POLICIES, ("", "default")) or {})["spec"]["mode"] == "Observe"
    assert text.splitlines() == [
        "ClusterPolicy: mode Observe",
        "ClusterQueue vision: Kueue's own preemption",
        "ClusterQueue research: Kueue's own preemption",
    ]
    assert server.writes()[0][1] == POLICIES.path(("", "default")), (
        "first the policy: a running quota_controller would undo the rest"
    )
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    assert queue["spec"]["cohortName"] == "cede", "the other fields of the queue stay"


async def test_release_deletes_guards_and_changes_private_quota_back(
    server: ApiServer, cede: Run
) -> None:
    labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE, names.GUARD: "c-1"}
    guard = {"metadata": {"name": "cede-guard-c-1", "labels": labels}, "spec": {}}
    server.put(CLUSTER_QUEUES, guard)
    in_namespace = {"name": "c-1", "namespace": names.GUARD_NAMESPACE, "labels": labels}
    server.put(JOBS, {"metadata": in_namespace, "spec": {}})
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    resource = {"name": names.GPU, "nominalQuota": "8", "lendingLimit": "0"}
    flavor = {"name": "a100", "resources": [resource]}
    queue["spec"]["resourceGroups"] = [{"coveredResources": [names.GPU], "flavors": [flavor]}]
    note = PrivateQuota("c-1", (Original("a100", names.GPU, "4"),)).text()
    queue["metadata"]["annotations"] = {names.PRIVATE_QUOTA: note}
    server.put(CLUSTER_QUEUES, queue)
    assert (await cede("release"))[0] == 0
    assert not server.get(CLUSTER_QUEUES, ("", "cede-guard-c-1"))
    assert not server.objects(JOBS)
    queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    [own] = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert own == {"name": names.GPU, "nominalQuota": "4"}
    assert not queue["metadata"].get("annotations")


async def test_release_keeps_preempt_own_tasks_as_the_administrator_set_it(
    server: ApiServer, cede: Run
) -> None:
    server.put(ALLOCATIONS, {"metadata": {"name": "vision"}, "spec": {"preemptOwnTasks": "Never"}})
    await cede("release")
    assert preemption(server, "vision")[0] == {**STOCK, "withinClusterQueue": "Never"}
    assert preemption(server, "research")[0] == STOCK


async def test_a_second_release_changes_nothing(server: ApiServer, cede: Run) -> None:
    await cede("release")
    version = server.version
    assert (await cede("release"))[0] == 0
    assert server.version == version


@pytest.mark.parametrize("missing", ["object", "kind"])
async def test_release_works_when_all_of_cede_is_gone(
    server: ApiServer, cede: Run, missing: str
) -> None:
    server.remove(POLICIES, ("", "default"))
    if missing == "kind":
        not_found = refuses(404, "NotFound", "the server could not find the requested resource")
        server.script("PATCH", POLICIES.path(("", "default")), not_found)
        server.script("GET", CESSIONS.path(), not_found)
    assert (await cede("release"))[0] == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")


async def test_release_activates_workloads_that_a_cession_stopped(
    server: ApiServer, cede: Run
) -> None:
    for name, labels in (("job-gpt", {names.STOPPED_FOR: "c-1"}), ("job-other", {})):
        metadata = {"name": name, "namespace": "research", "labels": labels}
        server.put(WORKLOADS, {"metadata": metadata, "spec": {"active": False}})
    _, text, _ = await cede("release")
    assert "Workload research/job-gpt: may be admitted again" in text
    stopped = server.get(WORKLOADS, ("research", "job-gpt")) or {}
    assert (stopped["spec"]["active"], stopped["metadata"]["labels"]) == (True, {})
    assert (server.get(WORKLOADS, ("research", "job-other")) or {})["spec"]["active"] is False, (
        "its user stopped that one"
    )


@pytest.mark.parametrize(("kind", "ended"), [("TrainJob", "deleted"), ("MPIJob", "failed")])
async def test_a_stopped_job_runs_again_once_its_pods_have_ended(
    server: ApiServer, cede: Run, kind: str, ended: str
) -> None:
    """Pods of a TrainJob name its Workload, those of an MPIJob's launcher only the Job that it
    made. Everything else is done before."""
    put_stopped(server, kind, "uid-it")
    saving = pod_of_train_job(deleted=time.time() + 60)
    if kind == "MPIJob":
        del saving["metadata"]["annotations"]
        maker = {"kind": kind, "name": "it", "uid": "uid-it", "controller": True}
        launcher = {"name": "it", "namespace": "research", "uid": "uid-job"}
        server.put(JOBS, {"metadata": launcher | {"ownerReferences": [maker]}, "spec": {}})
    server.put(PODS, saving)
    looks = asyncio.Queue[web.Request]()

    async def list_pods(request: web.Request) -> web.Response:
        looks.put_nowait(request)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [saving]})

    server.script("GET", PODS.path(namespace="research"), list_pods, list_pods)
    command = asyncio.create_task(cede("release"))
    for _ in range(2):
        await asyncio.wait_for(looks.get(), 20)
    assert not is_active(server)
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")
    if ended == "deleted":
        server.remove(PODS, ("research", "it-0"))
    else:
        server.put(PODS, {**saving, "status": {"phase": "Failed"}})
    code, text, warnings = await command
    assert (code, is_active(server)) == (0, True)
    assert "Workload research/job-gpt: may be admitted again" in text
    assert warnings.count("waiting until the pods of research/job-gpt have saved and ended") == 1


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({"deleted": 1.0}, id="it had its time"),
        pytest.param({"deleted": 4e9, "workload": "job-other"}, id="it is of another job"),
        pytest.param({"deleted": 4e9, "node": ""}, id="it never began"),
    ],
)
async def test_release_waits_for_no_other_pods(
    server: ApiServer, cede: Run, pod: dict[str, Any]
) -> None:
    put_stopped(server, "TrainJob", "uid-train-job")
    server.put(PODS, pod_of_train_job(**pod))
    await cede("release")
    assert is_active(server)


def put_stopped(server: ApiServer, kind: str, uid: str) -> None:
    """The Workload job-gpt, stopped for a Cession."""
    owner = {"kind": kind, "name": "it", "uid": uid, "controller": True}
    labels = {names.STOPPED_FOR: "c-1"}
    metadata: Json = {"name": "job-gpt", "namespace": "research", "labels": labels}
    metadata |= {"ownerReferences": [owner]}
    server.put(WORKLOADS, {"metadata": metadata, "spec": {"active": False}})


def is_active(server: ApiServer) -> bool:
    return bool((server.get(WORKLOADS, ("research", "job-gpt")) or {})["spec"]["active"])


def pod_of_train_job(deleted: float, workload: str = "job-gpt", node: str = "n1") -> Json:
    """A Job of a JobSet made it. Its grace period ends at `deleted`, in Unix seconds."""
    metadata = {
        "name": "it-0",
        "namespace": "research",
        "labels": {names.JOB_SET_NAME: "it"},
        "annotations": {names.POD_WORKLOAD: workload},
        "deletionTimestamp": rfc3339(deleted),
        "ownerReferences": [{"kind": "Job", "name": "it", "uid": "uid-job", "controller": True}],
    }
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


@pytest.mark.parametrize("kind", [DEPLOYMENTS, LEADER_WORKER_SETS], ids=lambda kind: kind.kind)
async def test_release_gives_servers_their_replicas_back(
    server: ApiServer, cede: Run, kind: Kind
) -> None:
    notes = {names.SIZES: "2-4", names.DESIRED_SIZE: "4", names.SHRUNK_AT: "2026-01-01T00:00:00Z"}
    for name, label in (("chat", names.CEDED), ("mail", names.WHOLE)):
        labels = {names.SERVER: label}
        metadata = {"name": name, "namespace": "research", "labels": labels, "annotations": notes}
        server.put(kind, {"metadata": metadata, "spec": {"replicas": 2}})
    _, text, _ = await cede("release")
    assert f"{kind.kind} research/chat: has 4 replicas again" in text
    chat = server.get(kind, ("research", "chat")) or {}
    assert chat["spec"]["replicas"] == 4
    assert chat["metadata"]["labels"] == {names.SERVER: names.WHOLE}
    assert chat["metadata"]["annotations"] == {names.SIZES: "2-4"}
    mail = server.get(kind, ("research", "mail")) or {}
    assert mail["spec"]["replicas"] == 2


async def test_release_needs_no_leader_worker_sets(server: ApiServer, cede: Run) -> None:
    server.script("GET", LEADER_WORKER_SETS.path(), refuses(404, "NotFound"))
    code, _, errors = await cede("release")
    assert (code, errors) == (0, "")


async def test_release_continues_after_a_failed_step_and_reports_it(
    server: ApiServer, cede: Run
) -> None:
    def refuse(method: str, path: str, _: object) -> web.Response | None:
        return refusal(500, "InternalError", "webhook down") if path.endswith("/vision") else None

    server.admission_hook = refuse
    code, text, errors = await cede("release")
    assert code == 1
    assert "ClusterQueue research: Kueue's own preemption" in text
    assert preemption(server, "research") == (STOCK, "BestEffortFIFO")
    assert "ClusterQueue vision: 500 InternalError: webhook down" in errors
    assert "run the command again" in errors
