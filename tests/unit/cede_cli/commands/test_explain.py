"""`cede explain` against an API server over real HTTP."""

import json

import pytest

from cede.api import names
from cede.api.objects import JOBS, POLICIES, WORKLOADS
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
