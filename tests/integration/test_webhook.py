"""Jobs that users create, with a real kubectl, API server and Kueue."""

from typing import Any

import pytest

from tests.builders.jobs import PRIORITY, QUEUE, plain_job
from tests.integration.user import WriteFile, expect_refusal, get_sizes, job_file, run_kubectl

pytestmark = pytest.mark.cluster


def test_an_elastic_job_starts_at_its_smallest_size_in_the_teams_queue(
    user: Any, team: str, write: WriteFile
) -> None:
    user.kubectl("apply", "-f", write(job_file(team)))
    assert get_sizes(user, team) == (2, 2, "8")
    job = user.kubectl_json("get", "job", "-n", team, "gpt")
    assert job["metadata"]["labels"] == {QUEUE: "default", PRIORITY: "training"}
    assert job["spec"]["suspend"] is True, "Kueue, which is called after us, has read our label"
    gates = job["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": "kueue.x-k8s.io/elastic-job"}], "and our annotation"


def test_an_unknown_priority_class_is_refused_with_the_list(
    user: Any, team: str, write: WriteFile
) -> None:
    job = plain_job()
    job["metadata"] = {"name": "gpt", "namespace": team, "labels": {PRIORITY: "urgent"}}
    message = expect_refusal(user, "create", "-f", write(job))
    assert "which is not a priority class of this cluster: use training" in message


def test_a_job_is_deleted_with_its_pods_only(user: Any, team: str, write: WriteFile) -> None:
    job = ("job", "gpt", "-n", team)
    # without a propagationPolicy the API server leaves the pods of a Job
    raw = ("--raw", f"/apis/batch/v1/namespaces/{team}/jobs/gpt")
    resumed = '{"spec": {"ttlSecondsAfterFinished": 1000}}'
    user.kubectl("apply", "-f", write(job_file(team)))
    user.kubectl("patch", *job, "-p", resumed)
    refusal = "delete it with propagationPolicy Background or Foreground"
    assert refusal in run_kubectl(user, "delete", *job, "--cascade=orphan")
    # but not those of a Job that has our finalizer, which kubectl's own policy replaces
    user.kubectl("delete", *raw)
    user.kubectl("wait", "--for=delete", *job)
    user.kubectl("apply", "-f", write(job_file(team)))
    user.kubectl("delete", *job, "--wait=true")


def test_all_complaints_come_at_once_and_before_the_api_servers_own(
    user: Any, team: str, write: WriteFile
) -> None:
    job = job_file(team, completionMode="NonIndexed", pod={"restartPolicy": "OnFailure"})
    job["metadata"]["labels"] = {PRIORITY: "urgent", QUEUE: "research"}
    job["spec"]["completions"] = 7
    message = expect_refusal(user, "create", "-f", write(job))
    for part in (
        "'urgent'",
        "'research'",
        "needs Indexed",
        "needs Never",
        "needs both to be equal",
    ):
        assert part in message


def test_a_bare_pod_with_an_accelerator_is_queued_by_kueue_or_refused(
    user: Any, team: str, write: WriteFile
) -> None:
    container = {"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": team},
        "spec": {"containers": [container]},
    }
    output = run_kubectl(user, "create", "-f", write(pod), "--dry-run=server", "-o", "yaml")
    # Kueue queues the pod when its pod integration is enabled
    is_gated = "name: kueue.x-k8s.io/admission" in output
    assert is_gated or "is in no queue: make it a Job" in output
    container["resources"] = {}
    user.kubectl("create", "-f", write(pod), "--dry-run=server")
