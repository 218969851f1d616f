"""With real kubectl, a real API server and a real Kueue: what users write, and get wrong."""

from typing import Any

import pytest

from tests.builders.jobs import PRIORITY, QUEUE, plain_job
from tests.integration.user import Write, file_of, outcome, refusal, sizes

pytestmark = pytest.mark.cluster


def test_an_elastic_job_starts_at_its_smallest_size_in_the_teams_queue(
    user: Any, team: str, write: Write
) -> None:
    user.kubectl("apply", "-f", write(file_of(team)))
    assert sizes(user, team) == (2, 2, "8")
    job = user.kubectl_json("get", "job", "-n", team, "gpt")
    assert job["metadata"]["labels"] == {QUEUE: "default", PRIORITY: "training"}
    assert job["spec"]["suspend"] is True, "Kueue has seen our queue label: ours comes first"
    gates = job["spec"]["template"]["spec"]["schedulingGates"]
    assert gates == [{"name": "kueue.x-k8s.io/elastic-job"}], "and our annotation"


def test_an_unknown_priority_class_is_refused_with_the_list(
    user: Any, team: str, write: Write
) -> None:
    job = plain_job()
    job["metadata"] = {"name": "gpt", "namespace": team, "labels": {PRIORITY: "urgent"}}
    assert "which is not a priority class of this cluster: use training" in refusal(
        user, "create", "-f", write(job)
    )


def test_all_complaints_come_at_once_and_before_the_api_servers_own(
    user: Any, team: str, write: Write
) -> None:
    job = file_of(team, completionMode="NonIndexed", pod={"restartPolicy": "OnFailure"})
    job["metadata"]["labels"] = {PRIORITY: "urgent", QUEUE: "research"}
    job["spec"]["completions"] = 7
    said = refusal(user, "create", "-f", write(job))
    for word in ("'urgent'", "'research'", "needs Indexed", "needs Never", "needs both to be equal"):
        assert word in said


def test_a_bare_pod_with_an_accelerator_is_held_by_kueue_or_refused_never_let_past_the_queue(
    user: Any, team: str, write: Write
) -> None:
    container = {"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": team},
        "spec": {"containers": [container]},
    }
    said = outcome(user, "create", "-f", write(pod), "--dry-run=server", "-o", "yaml")
    # where Kueue's pod integration is on, it queues the pod
    held = "name: kueue.x-k8s.io/admission" in said
    assert held or "is in no queue: make it a Job" in said
    container["resources"] = {}
    user.kubectl("create", "-f", write(pod), "--dry-run=server")
