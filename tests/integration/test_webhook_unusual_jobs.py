"""Unusual and valid jobs: with our patch the API server and Kueue still accept them."""

import json
from typing import Any

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE
from tests.integration.user import job_file

pytestmark = pytest.mark.cluster
CONTAINER = {"name": "train", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}}
VOLUME = {"name": "cede-control", "emptyDir": {}}
MOUNT = {"name": "cede-control", "mountPath": "/mine"}
SIDECAR = {"name": "side", "image": "side", "restartPolicy": "Always", "volumeMounts": [MOUNT]}


def with_pod(**pod: Any) -> Json:
    return {"pod": {"containers": [CONTAINER]} | pod}


def with_container(**more: Any) -> Json:
    return with_pod(containers=[CONTAINER | more])


UNUSUAL = {
    "eighteen failure rules": {"podFailurePolicy": {"rules": [RULE] * 18}},
    "a volume with our name": with_pod(
        volumes=[VOLUME],
        initContainers=[SIDECAR],
        containers=[CONTAINER | {"volumeMounts": [MOUNT]}],
    ),
    "a variable twice, and one with our name": with_container(
        env=[
            {"name": "A", "value": "1"},
            {"name": "A", "value": "2"},
            {"name": "CEDE_SIZES", "value": "9"},
            {"name": "B", "value": "$(A)"},
        ]
    ),
    "a thousand variables": with_container(
        env=[{"name": f"V{i}", "value": "é💥" * 20} for i in range(1000)]
    ),
    "the last of many containers": with_pod(
        containers=[{"name": f"c{i}", "image": "c"} for i in range(20)] + [CONTAINER]
    ),
    "its own subdomain": with_pod(subdomain="mine", hostname="me", setHostnameAsFQDN=False),
    "a long grace period": with_pod(terminationGracePeriodSeconds=600),
    "no grace period": with_pod(terminationGracePeriodSeconds=0),
    "placement": with_pod(
        nodeSelector={"a": "b"},
        tolerations=[{"operator": "Exists"}],
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"a": "b"}},
            }
        ],
    ),
    "its own scheduling gates": with_pod(schedulingGates=[{"name": "example.com/gate"}]),
    "requests of the pod as a whole": with_pod(
        resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    ),
    "limits per index": {"backoffLimitPerIndex": 1, "maxFailedIndexes": 2},
    "success policy": {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
    "pod replacement policy": {"podReplacementPolicy": "Failed"},
    "suspended, with all deadlines": {
        "suspend": True,
        "activeDeadlineSeconds": 9,
        "ttlSecondsAfterFinished": 0,
        "backoffLimit": 2**31 - 1,
    },
}


def dry_run(cluster: Any, job: Json) -> Json:
    """The job as it would be stored. Raises AssertionError when it is refused."""
    output = cluster.kubectl(
        "create", "--dry-run=server", "-f", "-", "-o", "json", stdin=json.dumps(job)
    )
    stored: Json = json.loads(output)
    return stored


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_job_that_kubernetes_accepts_is_accepted_as_elastic(
    user: Any, team: str, name: str
) -> None:
    job = job_file(team, **UNUSUAL[name])
    plain = json.loads(json.dumps(job))
    plain["metadata"].pop("annotations")
    # the job is valid without our patch
    dry_run(user, plain)
    stored = dry_run(user, job)
    assert (stored["spec"]["parallelism"], stored["spec"]["completions"]) == (2, 2)
    again = dry_run(user, copy_as_new(stored))
    for spec in (again["spec"], stored["spec"]):
        # both contain the uid of the job
        spec["template"].pop("metadata")
        spec.pop("selector")
    assert again["spec"] == stored["spec"], "our defaults are idempotent"


def copy_as_new(stored: Json) -> Json:
    """A stored job as somebody would create it again under another name."""
    stored = json.loads(json.dumps(stored))
    metadata = {name: stored["metadata"][name] for name in ("namespace", "labels", "annotations")}
    spec = {name: value for name, value in stored["spec"].items() if name != "selector"}
    labels = spec["template"]["metadata"]["labels"]
    spec["template"]["metadata"]["labels"] = {
        name: value
        for name, value in labels.items()
        if "job-name" not in name and "controller-uid" not in name
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata | {"name": "again"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("sizes", "parallelism"),
    [("1-4096", 4096), ("1", 1), ("4096", 4096), (" 1 , 2 ", 2)],
    ids=["all", "one", "the largest", "blanks"],
)
def test_extreme_sizes_are_accepted(user: Any, team: str, sizes: str, parallelism: int) -> None:
    job = job_file(team)
    job["metadata"]["annotations"]["cede.dev/sizes"] = sizes
    job["spec"] |= {"parallelism": parallelism, "completions": parallelism}
    annotations = dry_run(user, job)["metadata"]["annotations"]
    assert annotations["cede.dev/desired-size"] == str(parallelism)


def test_a_job_without_name_and_labels_gets_both(user: Any, team: str) -> None:
    job = job_file(team)
    del job["metadata"]["name"]
    job["metadata"] |= {"generateName": "it-", "labels": None}
    labels = dry_run(user, job)["metadata"]["labels"]
    assert labels == {QUEUE: "default", PRIORITY: "training"}


def test_kueue_copies_the_labels_that_we_set_on_a_deployment(user: Any, team: str) -> None:
    """In the same request: the API server calls us before Kueue."""
    stored = dry_run(user, job_of_kind("Deployment", pod_spec(), team))
    labels = stored["spec"]["template"]["metadata"]["labels"]
    assert (labels[QUEUE], labels[PRIORITY]) == ("default", "training")


def test_kueue_gates_a_pod_in_the_queue_that_we_set(user: Any, team: str) -> None:
    """In the same request: the API server calls us before Kueue."""
    stored = dry_run(user, job_of_kind("Pod", pod_spec(), team))
    assert {"name": "kueue.x-k8s.io/admission"} in stored["spec"]["schedulingGates"]
    assert stored["metadata"]["labels"][PRIORITY] == "training"
