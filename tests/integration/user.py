"""What a user has and does in the tests of the webhook: a team, a file, kubectl."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.jobs import elastic_job

TEAM = "webhook-test"
POLICY = {
    "apiVersion": "cede.dev/v1alpha1",
    "kind": "ClusterPolicy",
    "metadata": {"name": names.POLICY_NAME},
    "spec": {
        "instanceTypes": [{"name": "local-4gpu", "accelerators": 4, "cpu": "2", "memory": "16Gi"}],
        "priorityClasses": [
            {"name": "inference", "weight": 100},
            {"name": "training", "weight": 50},
        ],
        "defaultPriorityClass": "training",
    },
}
ALLOCATION = {
    "apiVersion": "cede.dev/v1alpha1",
    "kind": "ComputeAllocation",
    "metadata": {"name": TEAM},
    "spec": {"maxPriorityClass": "training", "quotas": []},
}
SCHEDULER = (
    "--as",
    f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.SCHEDULER}",
    "--as-group",
    "system:masters",
)
Write = Callable[[Json], str]
QUEUED = f"localqueue.kueue.x-k8s.io/{names.LOCAL_QUEUE}"


def file_of(team: str, **more: Any) -> Json:
    """An elastic Job as its user writes it: nothing in it that the API server would have added."""
    job = elastic_job(8, "2-8", **more)
    job["metadata"] = {"name": "gpt", "namespace": team, "annotations": {"cede.dev/sizes": "2-8"}}
    del job["spec"]["podReplacementPolicy"]
    del job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return job


def sizes(cluster: Any, team: str) -> tuple[int, int, str]:
    job = cluster.kubectl_json("get", "job", "-n", team, "gpt")
    return (
        job["spec"]["parallelism"],
        job["spec"]["completions"],
        job["metadata"]["annotations"]["cede.dev/desired-size"],
    )


def resize(cluster: Any, team: str, size: int) -> None:
    """As the scheduler does it."""
    patch = json.dumps({"spec": {"parallelism": size, "completions": size}})
    cluster.kubectl("patch", "job", "-n", team, "gpt", "--type=merge", "-p", patch, *SCHEDULER)


def refusal(cluster: Any, *args: str, stdin: str | None = None) -> str:
    """Why the webhook refused; an AssertionError when it did not."""
    with pytest.raises(AssertionError) as refused:
        cluster.kubectl(*args, stdin=stdin)
    said = str(refused.value)
    assert "denied the request" in said, said
    return said


def outcome(cluster: Any, *args: str) -> str:
    """What kubectl printed, or why it refused."""
    try:
        return str(cluster.kubectl(*args))
    except AssertionError as refused:
        return str(refused)
