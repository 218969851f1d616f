"""`cede explain` against an API server over real HTTP."""

import json
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    COHORTS,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    POLICIES,
    PRIORITY_CLASSES,
    WORKLOADS,
    Json,
)
from tests.builders.reports import stopping_cession
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.unit.cede_cli.conftest import Run


@pytest.fixture
async def jobs(server: ApiServer) -> None:
    """A Workload of Job `inference` in each of two namespaces, and the Job in one of them."""
    owners = [{"kind": "Job", "name": "inference", "uid": "j"}]
    for namespace in ("vision", "research"):
        metadata = {"name": f"job-{namespace}", "namespace": namespace, "ownerReferences": owners}
        server.put(WORKLOADS, {"metadata": metadata, "spec": {"queueName": "default"}})
    annotations = {names.SIZES: "2-8", names.DESIRED_SIZE: "8"}
    job = {"name": "inference", "namespace": "vision", "annotations": annotations}
    server.put(JOBS, {"metadata": job})


@pytest.mark.usefixtures("jobs")
async def test_explain_uses_the_namespace_of_the_context(cede: Run) -> None:
    code, text, _ = await cede("explain", "inference")
    assert (code, text.splitlines()[0]) == (0, "vision/inference: Waiting")
    assert "It is elastic with the allowed sizes 2-8" in text


@pytest.mark.usefixtures("jobs")
async def test_explain_uses_the_given_namespace(cede: Run) -> None:
    _, text, _ = await cede("explain", "job-research", "-n", "research", "-o", "json")
    explanation = json.loads(text)
    assert (explanation["namespace"], explanation["state"]) == ("research", "Waiting")


@pytest.mark.usefixtures("jobs")
async def test_explain_fails_for_a_name_that_does_not_exist(cede: Run) -> None:
    code, text, _ = await cede("explain", "nobody")
    assert code == 1
    assert "There is no Job and no Workload nobody in namespace vision" in text


@pytest.mark.usefixtures("jobs")
async def test_an_object_that_cannot_be_read_is_named_and_the_job_is_explained(
    server: ApiServer, cede: Run
) -> None:
    server.put(POLICIES, {"metadata": {"name": "default"}, "spec": {"mode": "Newer"}})
    code, text, errors = await cede("explain", "inference")
    assert (code, text.splitlines()[0]) == (0, "vision/inference: Waiting")
    assert errors.startswith("cede: this cede cannot read ClusterPolicy default: ")


# --- what is read only for this job ---------------------------------------------------------------
def put_workload(server: ApiServer, *, active: bool = True, **status: Any) -> None:
    """The Workload of Job vision/inference."""
    owner = {"kind": "Job", "name": "inference", "uid": "j", "controller": True}
    fields: Json = {"f:spec": {"f:active": {}}}
    metadata: Json = {
        "name": "job-vision",
        "namespace": "vision",
        "uid": "w",
        "ownerReferences": [owner],
        "managedFields": [
            {"manager": "kueue", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}},
            {"manager": "kubectl-edit", "time": "2026-01-02T00:00:00Z", "fieldsV1": fields},
        ],
    }
    spec = {"queueName": "default", "active": active}
    server.put(WORKLOADS, {"metadata": metadata, "spec": spec, "status": status})
    queue = {"metadata": {"name": "default", "namespace": "vision"}}
    server.put(LOCAL_QUEUES, queue | {"spec": {"clusterQueue": "vision"}})


async def reason(cede: Run) -> str:
    _, text, _ = await cede("explain", "inference", "-o", "json")
    return str(json.loads(text)["reason"])


@pytest.mark.usefixtures("jobs")
async def test_who_made_a_workload_inactive_is_named(server: ApiServer, cede: Run) -> None:
    put_workload(server, active=False)
    _, text, _ = await cede("explain", "inference")
    assert "kubectl-edit wrote that" in text
    assert "[DeactivatedByHand]" in text


@pytest.mark.usefixtures("jobs")
async def test_the_list_of_jobs_gives_the_same_reason(server: ApiServer, cede: Run) -> None:
    """The job was stopped for another one for good, and started again and stopped by somebody."""
    put_workload(server, active=False)
    cession = stopping_cession(completed="2026-01-01T12:00:00Z")
    cession["spec"]["targets"][0] |= {"namespace": "vision", "job": "inference", "uid": "j"}
    cession["status"]["targets"] = [{"uid": "j", "stopped": True, "staysStopped": True}]
    server.put(CESSIONS, cession)
    assert await reason(cede) == "DeactivatedByHand"
    _, text, _ = await cede("jobs", "-o", "json")
    assert [row["reason"] for row in json.loads(text)] == ["DeactivatedByHand"]


@pytest.mark.usefixtures("jobs")
async def test_an_inactive_workload_is_explained_to_who_may_only_list(
    server: ApiServer, cede: Run
) -> None:
    put_workload(server, active=False)
    server.script("GET", WORKLOADS.path(("vision", "job-vision")), refuses(403, "Forbidden"))
    code, text, _ = await cede("explain", "inference")
    assert (code, "kubectl-edit wrote that" in text) == (0, True)


ADMISSION: Json = {
    "conditions": [
        {"type": "Admitted", "status": "True"},
        {"type": "PodsReady", "status": "False", "message": "Not all pods are ready or succeeded"},
    ],
    "admission": {"clusterQueue": "vision", "podSetAssignments": [{"count": 1}]},
}


def put_pod(server: ApiServer, name: str, job: str, waiting: str) -> None:
    labels = {names.POD_JOB_NAME: job}
    state = {"waiting": {"reason": waiting, "message": "no such image"}}
    container = {"name": "train", "image": "registry.example/none", "state": state}
    status = {"phase": "Pending", "containerStatuses": [container]}
    metadata = {"name": name, "namespace": "vision", "labels": labels}
    server.put(PODS, {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status})


@pytest.mark.usefixtures("jobs")
async def test_the_pods_of_this_job_are_read_and_no_others(server: ApiServer, cede: Run) -> None:
    put_workload(server, **ADMISSION)
    put_pod(server, "other-0", "other", "ImagePullBackOff")
    assert await reason(cede) == "PodsNotReady"
    put_pod(server, "inference-0", "inference", "ImagePullBackOff")
    _, text, _ = await cede("explain", "inference")
    assert (
        "1 of its 1 pods cannot pull image registry.example/none on node n1: ImagePullBackOff (no "
        "such image). [ImageNotPulled]" in text
    )


@pytest.mark.usefixtures("jobs")
async def test_the_events_of_this_job_tell_why_it_has_no_pods(server: ApiServer, cede: Run) -> None:
    put_workload(server, **ADMISSION)
    job = {"name": "inference", "namespace": "vision"}
    server.put(JOBS, {"metadata": job, "spec": {"parallelism": 2}, "status": {"active": 0}})
    job_uid = (server.get(JOBS, ("vision", "inference")) or {})["metadata"]["uid"]
    for uid in ("another", job_uid):
        event = {
            "metadata": {"name": f"e-{uid}", "namespace": "vision"},
            "regarding": {"uid": uid},
            "reason": "FailedCreate",
            "note": f'Error creating: pods "{uid}" is forbidden: exceeded quota: small',
        }
        server.put(EVENTS, event)
    _, text, _ = await cede("explain", "inference")
    assert f'does not allow its pods: Error creating: pods "{job_uid}" is forbidden' in text


@pytest.mark.usefixtures("jobs")
@pytest.mark.parametrize("kind", ["Job", "Workload"])
async def test_what_only_the_scheduler_knows_is_read_from_its_event(
    server: ApiServer, cede: Run, kind: str
) -> None:
    """It is about the Workload where the job is of another kind."""
    put_workload(server)
    server.put(CLUSTER_QUEUES, {"metadata": {"name": "vision"}})
    if kind == "Workload":
        server.remove(JOBS, ("vision", "inference"))
    about = {"Job": (JOBS, "inference"), "Workload": (WORKLOADS, "job-vision")}[kind]
    uid = (server.get(about[0], ("vision", about[1])) or {})["metadata"]["uid"]
    metadata = {"name": "e", "namespace": "vision"}
    event = {"metadata": metadata, "regarding": {"uid": uid}, "reason": "TooManyTargets"}
    server.put(EVENTS, event)
    _, text, _ = await cede("explain", "inference")
    assert "so nothing is taken back for it. [TooManyTargets]" in text


@pytest.mark.usefixtures("jobs")
async def test_a_user_without_rights_beyond_the_namespace_gets_what_can_be_known(
    server: ApiServer, cede: Run
) -> None:
    message = "couldn't assign flavors to pod set main: insufficient unused quota for "
    lack = f"{message}nvidia.com/gpu in flavor a100, 4 more needed"
    put_workload(server, conditions=[{"type": "QuotaReserved", "status": "False", "message": lack}])
    shared = (POLICIES, ALLOCATIONS, CESSIONS, CLUSTER_QUEUES, COHORTS, PRIORITY_CLASSES, WORKLOADS)
    for kind in shared:
        server.script("GET", kind.path(), refuses(403, "Forbidden"))
    code, text, errors = await cede("explain", "inference")
    assert code == 0
    assert "4 nvidia.com/gpu of that are in use. Who uses them could not be read." in text
    assert len(errors.splitlines()) == 1
    assert "you may not list cessions, clusterpolicies" in errors
