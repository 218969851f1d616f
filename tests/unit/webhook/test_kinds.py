"""Every kind Kueue queues: where its pods stand, whose business it is, what labels it gets."""

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml

from cede.api.objects import Json
from tests.builders.job_kinds import a_pod, of_every_kind
from tests.paths import TREE
from tests.unit.webhook.test_rules import PRIORITY, QUEUE, TEAM, plain
from webhook.admission import Asked
from webhook.defaults import defaulted
from webhook.kinds import JOBS, POD, SERVING, concerns_us, templates
from webhook.node_fit import requests
from webhook.rules import complaints

GPU = "nvidia.com/gpu"
CONFIGURATIONS = TREE / "deploy/base/webhook/configurations.yaml"
EVERY = of_every_kind(a_pod({GPU: "1"}))


def kind(name: str, **labels: str) -> Json:
    # no part of it twice the same
    found: Json = json.loads(json.dumps(of_every_kind(a_pod({GPU: "1"}), **labels)[name][0]))
    return found


def owned(found: Json, api_version: str, owner: str) -> Json:
    reference = {
        "apiVersion": api_version,
        "kind": owner,
        "name": "o",
        "uid": "1",
        "controller": True,
    }
    return found | {"metadata": found["metadata"] | {"ownerReferences": [reference]}}


def given(found: Json, old: Json | None = None) -> Json:
    """The labels it has after us."""
    labels: Json = defaulted(Asked(found, old, team=TEAM))["metadata"].get("labels", {})
    return labels


def test_each_kind_that_kueue_queues_is_here() -> None:
    here = {(found["apiVersion"].rpartition("/")[0], name) for name, (found, _) in EVERY.items()}
    assert here == JOBS | SERVING | {POD}


@pytest.mark.parametrize("name", EVERY)
def test_every_pod_template_of_a_kind_is_found_where_its_user_wrote_it(name: str) -> None:
    found, where = EVERY[name]
    assert [each for each, _ in requests(found)] == where
    assert all(asks == {GPU: 1} for _, asks in requests(found))


@pytest.mark.parametrize("name", EVERY)
def test_a_kind_gets_queue_and_priority_on_the_object_and_nothing_else(name: str) -> None:
    after = defaulted(Asked(EVERY[name][0], team=TEAM))
    assert after["metadata"].pop("labels") == {QUEUE: "default", PRIORITY: "training"}
    assert after == EVERY[name][0]


@pytest.mark.parametrize("name", EVERY)
def test_a_kind_keeps_what_its_user_says_and_is_refused_for_the_same_things_as_a_job(
    name: str,
) -> None:
    labels = {QUEUE: "night", PRIORITY: "sweep"}
    assert given(kind(name, **labels)) == labels
    found = complaints(Asked(kind(name, **{QUEUE: "research", PRIORITY: "urgent"}), team=TEAM))
    assert [word in said for word, said in zip(("urgent", "research"), found, strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize("name", EVERY)
def test_no_kind_is_touched_later_but_for_labels_it_has_lost(name: str) -> None:
    bare = kind(name) | {"status": {"readyReplicas": 1}}
    labelled = kind(name, **{QUEUE: "night", PRIORITY: "sweep"})
    assert given(bare, bare) == {}
    assert given(bare, labelled) == {QUEUE: "night", PRIORITY: "sweep"}


@pytest.mark.parametrize("name", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_what_served_before_its_namespace_was_adopted_is_queued_when_it_is_applied_at_rest(
    name: str,
) -> None:
    """Kueue then queues it; while it has ready pods, Kueue lets no queue be added."""
    assert given(kind(name), kind(name) | {"status": {"replicas": 0}}) == {
        QUEUE: "default",
        PRIORITY: "training",
    }
    assert given(kind(name), kind(name) | {"status": {"readyReplicas": 2}}) == {}


@pytest.mark.parametrize("name", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_labels_said_on_the_pods_of_what_serves_are_taken_for_the_object(name: str) -> None:
    """Kueue reads the object only, and writes what it reads there over the pods' labels."""
    found = kind(name)
    where, pods = list(templates(found))[-1]
    pods["metadata"]["labels"] = {"app": "it", QUEUE: "night", PRIORITY: "sweep"}
    assert given(found) == {QUEUE: "night", PRIORITY: "sweep"}
    pods["metadata"]["labels"][PRIORITY] = "urgent"
    (said,) = complaints(Asked(found, team=TEAM))
    assert said.startswith(
        f"{where}.metadata.labels[{PRIORITY}] is 'urgent', which is no priority class here"
    )


@pytest.mark.parametrize(
    ("found", "concerns", "labelled"),
    [
        pytest.param(
            owned(kind("Job"), "batch/v1", "CronJob"),
            True,
            True,
            id="a CronJob's Job: Kueue queues the Job",
        ),
        pytest.param(
            owned(kind("Deployment"), "serving.example/v1", "Model"),
            True,
            True,
            id="an operator's Deployment",
        ),
        pytest.param(
            owned(kind("Job"), "jobset.x-k8s.io/v1alpha2", "JobSet"),
            False,
            False,
            id="a JobSet's Job",
        ),
        pytest.param(
            owned(kind("RayCluster"), "ray.io/v1", "RayJob"),
            False,
            False,
            id="a RayJob's RayCluster",
        ),
        pytest.param(
            owned(kind("StatefulSet"), "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
            False,
            False,
            id="its StatefulSet",
        ),
        pytest.param(kind("Pod"), True, True, id="a pod of nobody's"),
        pytest.param(owned(kind("Pod"), "batch/v1", "Job"), False, False, id="a Job's pod"),
        pytest.param(
            owned(kind("Pod"), "apps/v1", "ReplicaSet"), False, False, id="a ReplicaSet's pod"
        ),
        pytest.param(
            owned(kind("Pod", **{PRIORITY: "sweep"}), "apps/v1", "ReplicaSet"),
            True,
            False,
            id="one that names a priority",
        ),
    ],
)
def test_what_another_object_answers_for_is_left_alone(
    found: Json, concerns: bool, labelled: bool
) -> None:
    assert concerns_us(Asked(found, team=TEAM)) is concerns
    assert (QUEUE in given(found)) is labelled


def test_a_replica_set_is_no_way_past_the_ceiling() -> None:
    pod = owned(kind("Pod", **{PRIORITY: "inference"}), "apps/v1", "ReplicaSet")
    assert [
        "above what team vision may use" in said for said in complaints(Asked(pod, team=TEAM))
    ] == [True]


def test_a_wrapper_in_a_wrapper_is_not_followed_for_ever() -> None:
    found = kind("AppWrapper")
    found["spec"]["components"].append({"template": deepcopy(found)})
    assert len(list(templates(found))) == 1


# --- what the API server asks us about ------------------------------------------------------------
def asked_about(configuration: Json) -> set[tuple[str, str]]:
    rules = [rule for hook in configuration["webhooks"] for rule in hook["rules"]]
    return {
        (group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_api_server_asks_about_every_kind_in_both_its_webhooks() -> None:
    both: list[Any] = list(yaml.safe_load_all(CONFIGURATIONS.read_text()))
    wanted = {(group, f"{name.lower()}s") for group, name in JOBS | SERVING | {POD}}
    assert [asked_about(each) for each in both] == [wanted, wanted]


OWNER = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "s",
    "uid": "1",
    "controller": True,
}


@pytest.mark.parametrize(
    ("user", "was_owned", "refused"),
    [
        pytest.param("ada", False, True, id="a person"),
        pytest.param(
            "system:serviceaccount:vision:default", False, True, id="the team's own service account"
        ),
        pytest.param("system:kube-controller-manager", False, False, id="a controller"),
        pytest.param("system:serviceaccount:jobset-system:jobset", False, False, id="an operator"),
        pytest.param("ada", True, False, id="a person who changes what was owned already"),
    ],
)
def test_nobody_but_a_controller_says_that_a_controller_made_it(
    user: str, was_owned: bool, refused: bool
) -> None:
    """Kueue would queue neither it nor, for what its maker holds, anything else."""
    job = plain()
    job["metadata"] |= {"namespace": "vision", "ownerReferences": [OWNER]}
    found = complaints(Asked(job, deepcopy(job) if was_owned else None, user, TEAM))
    assert found == (
        [
            (
                "metadata.ownerReferences says that a controller made this, which only a "
                "controller "
                "may say: remove it"
            )
        ]
        if refused
        else []
    )


def test_the_clusters_own_priorities_are_not_a_teams() -> None:
    job = plain()
    job["spec"]["template"]["spec"]["priorityClassName"] = "system-cluster-critical"
    [said] = complaints(Asked(job, team=TEAM))
    assert "spec.template.spec.priorityClassName is 'system-cluster-critical'" in said
