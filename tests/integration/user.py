"""A team, its files, and its use of kubectl, for the tests of the webhook on a real cluster."""

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
AS_SCHEDULER = (
    "--as",
    f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.SCHEDULER}",
    "--as-group",
    "system:masters",
)
AS_JOB_CONTROLLER = (
    "--as=system:serviceaccount:kube-system:job-controller",
    "--as-group=system:masters",
)
WriteFile = Callable[[Json], str]
LOCAL_QUEUE = f"localqueue.kueue.x-k8s.io/{names.LOCAL_QUEUE}"
"""The team's queue as `kubectl -o name` prints it."""


def job_file(team: str, **more: Any) -> Json:
    """An elastic Job as its user writes it, without the API server's defaults."""
    job = elastic_job(8, "2-8", **more)
    job["metadata"] = {"name": "gpt", "namespace": team, "annotations": {"cede.dev/sizes": "2-8"}}
    del job["spec"]["podReplacementPolicy"]
    del job["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    return job


def get_sizes(cluster: Any, team: str) -> tuple[int, int, str]:
    """Parallelism, completions and desired size of the job `gpt`."""
    job = cluster.kubectl_json("get", "job", "-n", team, "gpt")
    return (
        job["spec"]["parallelism"],
        job["spec"]["completions"],
        job["metadata"]["annotations"]["cede.dev/desired-size"],
    )


def resize(cluster: Any, team: str, size: int) -> None:
    """Resizes the job `gpt` as the scheduler does."""
    patch = json.dumps({"spec": {"parallelism": size, "completions": size}})
    cluster.kubectl("patch", "job", "-n", team, "gpt", "--type=merge", "-p", patch, *AS_SCHEDULER)


def expect_refusal(cluster: Any, *args: str, stdin: str | None = None) -> str:
    """The message with which a webhook refused. Raises AssertionError when none did."""
    with pytest.raises(AssertionError) as refused:
        cluster.kubectl(*args, stdin=stdin)
    message = str(refused.value)
    assert "denied the request" in message, message
    return message


def run_kubectl(cluster: Any, *args: str) -> str:
    """What kubectl printed, also when it failed."""
    try:
        return str(cluster.kubectl(*args))
    except AssertionError as error:
        return str(error)
