"""Jobs that are odd and valid: with our patch the API server and Kueue still accept them, and ours
comes before Kueue's."""

import json
from typing import Any

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import jobs_of_every_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE
from tests.integration.user import file_of

pytestmark = pytest.mark.cluster
CONTAINER = {"name": "train", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [7]}}
SECRET = {"name": "cede-control", "emptyDir": {}}
MOUNT = {"name": "cede-control", "mountPath": "/mine"}
SIDECAR = {"name": "side", "image": "side", "restartPolicy": "Always", "volumeMounts": [MOUNT]}


def with_pod(**pod: Any) -> Json:
    return {"pod": {"containers": [CONTAINER]} | pod}


def with_container(**more: Any) -> Json:
    return with_pod(containers=[CONTAINER | more])


ODD = {
    "eighteen failure rules": {"podFailurePolicy": {"rules": [RULE] * 18}},
    "our own volume's name taken": with_pod(
        volumes=[SECRET],
        initContainers=[SIDECAR],
        containers=[CONTAINER | {"volumeMounts": [MOUNT]}],
    ),
    "a variable twice, and ones of ours": with_container(
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
    "a container of many": with_pod(
        containers=[{"name": f"c{i}", "image": "c"} for i in range(20)] + [CONTAINER]
    ),
    "a subdomain of its own": with_pod(subdomain="mine", hostname="me", setHostnameAsFQDN=False),
    "a long goodbye": with_pod(terminationGracePeriodSeconds=86_400),
    "no goodbye": with_pod(terminationGracePeriodSeconds=0),
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
    "gates of its own": with_pod(schedulingGates=[{"name": "example.com/gate"}]),
    "resources of the pod as a whole": with_pod(
        resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    ),
    "limits for each index": {"backoffLimitPerIndex": 1, "maxFailedIndexes": 2},
    "success by its first": {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}},
    "replaced while it ends": {"podReplacementPolicy": "Failed"},
    "suspended, with all deadlines": {
        "suspend": True,
        "activeDeadlineSeconds": 9,
        "ttlSecondsAfterFinished": 0,
        "backoffLimit": 2**31 - 1,
    },
}


def tried(cluster: Any, found: Json) -> Json:
    """What would be made of it, by a dry run. Raises AssertionError when it is refused."""
    made: Json = json.loads(
        cluster.kubectl(
            "create", "--dry-run=server", "-f", "-", "-o", "json", stdin=json.dumps(found)
        )
    )
    return made


@pytest.mark.parametrize("name", ODD)
def test_an_odd_job_that_kubernetes_accepts_it_accepts_as_an_elastic_one(
    user: Any, team: str, name: str
) -> None:
    found = file_of(team, **ODD[name])
    plain = json.loads(json.dumps(found))
    plain["metadata"].pop("annotations")
    # valid without us
    tried(user, plain)
    made = tried(user, found)
    assert (made["spec"]["parallelism"], made["spec"]["completions"]) == (2, 2)
    again = tried(user, anew(made))["spec"]
    for part in (again, made["spec"]):
        # with the uid of the one job and the other
        part["template"].pop("metadata")
        part.pop("selector")
    assert again == made["spec"], "what was made is made again the same"


def anew(made: Json) -> Json:
    """A made job as somebody would create it again under another name."""
    made = json.loads(json.dumps(made))
    meta = {name: made["metadata"][name] for name in ("namespace", "labels", "annotations")} | {
        "name": "again"
    }
    spec = {name: value for name, value in made["spec"].items() if name != "selector"}
    labels = spec["template"]["metadata"]["labels"]
    spec["template"]["metadata"]["labels"] = {
        name: labels[name]
        for name in labels
        if "job-name" not in name and "controller-uid" not in name
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("sizes", "parallelism"),
    [("1-4096", 4096), ("1", 1), ("4096", 4096), (" 1 , 2 ", 2)],
    ids=["all", "one", "the largest", "blanks"],
)
def test_the_ends_of_the_grammar_are_accepted(
    user: Any, team: str, sizes: str, parallelism: int
) -> None:
    found = file_of(team)
    found["metadata"]["annotations"]["cede.dev/sizes"] = sizes
    found["spec"] |= {"parallelism": parallelism, "completions": parallelism}
    assert tried(user, found)["metadata"]["annotations"]["cede.dev/desired-size"] == str(
        parallelism
    )


def test_a_job_with_no_name_and_no_labels_is_named_and_labelled(user: Any, team: str) -> None:
    found = file_of(team)
    del found["metadata"]["name"]
    made = tried(
        user, found | {"metadata": found["metadata"] | {"generateName": "it-", "labels": None}}
    )
    assert made["metadata"]["labels"] == {QUEUE: "default", PRIORITY: "training"}


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_ours_comes_before_kueues_which_acts_on_what_we_wrote(
    user: Any, team: str, kind: str
) -> None:
    """Kueue hands a Deployment's labels on to its pods, and gates a pod that names a queue, in the
    same request."""
    made = tried(user, jobs_of_every_kind(pod_spec(), team)[kind][0])
    if kind == "Pod":
        assert {"name": "kueue.x-k8s.io/admission"} in made["spec"]["schedulingGates"]
        assert made["metadata"]["labels"][PRIORITY] == "training"
    else:
        labels = made["spec"]["template"]["metadata"]["labels"]
        assert (labels[QUEUE], labels[PRIORITY]) == ("default", "training")
