"""Every kind that Kueue queues: its pod templates, its controller, and its labels."""

from copy import deepcopy
from typing import Any

import pytest
import yaml

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, pod_spec
from tests.builders.jobs import PRIORITY, QUEUE, TEAM, with_owner
from tests.paths import TREE
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.finalizers import FOREGROUND_DELETION
from webhook.gentle_stop import TORCHRUN_TIMEOUT
from webhook.kinds import JOBS, POD, SERVING, get_pod_templates, is_in_scope
from webhook.node_fit import get_pod_requests
from webhook.rules import complaints

GPU = "nvidia.com/gpu"
CONFIGURATIONS = TREE / "deploy/base/webhook/configurations.yaml"
EVERY_KIND = jobs_of_every_kind(pod_spec({GPU: "1"}))
SERVING_KINDS = ["Deployment", "StatefulSet", "LeaderWorkerSet"]


def job_with_gpu(kind: str, **labels: str) -> Json:
    return job_of_kind(kind, pod_spec({GPU: "1"}), **labels)


def labels_after_defaults(job: Json, old: Json | None = None) -> Json:
    defaulted = apply_defaults(AdmissionRequest(job, old, team=TEAM))
    labels: Json = defaulted["metadata"].get("labels", {})
    return labels


def test_every_kind_that_kueue_queues_is_tested() -> None:
    tested = {(job["apiVersion"].rpartition("/")[0], kind) for kind, (job, _) in EVERY_KIND.items()}
    assert tested == JOBS | SERVING | {POD}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_pod_template_is_found_at_its_field_path(kind: str) -> None:
    job, paths = EVERY_KIND[kind]
    assert [path for path, _ in get_pod_requests(job)] == paths
    assert all(requests == {GPU: 1} for _, requests in get_pod_requests(job))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_kind_gets_queue_priority_and_time_to_save_and_nothing_else(kind: str) -> None:
    """But a Job also gets what makes its pods go with it."""
    job = job_with_gpu(kind)
    defaulted = apply_defaults(AdmissionRequest(job, team=TEAM))
    finalizers = defaulted["metadata"].pop("finalizers", [])
    assert finalizers == ([FOREGROUND_DELETION] if kind == "Job" else [])
    assert defaulted["metadata"].pop("labels") == {QUEUE: "default", PRIORITY: "training"}
    for _, template in get_pod_templates(defaulted):
        pod = template["spec"]
        assert pod.pop("terminationGracePeriodSeconds") == TEAM.grace_s
        for container in pod["containers"]:
            assert [variable["name"] for variable in container.pop("env")] == [TORCHRUN_TIMEOUT]
    assert defaulted == job


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_kind_keeps_the_labels_of_its_user(kind: str) -> None:
    labels = {QUEUE: "night", PRIORITY: "sweep"}
    assert labels_after_defaults(job_with_gpu(kind, **labels)) == labels


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_kind_is_refused_for_the_same_labels_as_a_job(kind: str) -> None:
    job = job_with_gpu(kind, **{QUEUE: "research", PRIORITY: "urgent"})
    priority, queue = complaints(AdmissionRequest(job, team=TEAM))
    assert "urgent" in priority
    assert "research" in queue


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_update_only_restores_labels_that_were_lost(kind: str) -> None:
    unlabelled = job_with_gpu(kind) | {"status": {"readyReplicas": 1}}
    labelled = job_with_gpu(kind, **{QUEUE: "night", PRIORITY: "sweep"})
    assert labels_after_defaults(unlabelled, unlabelled) == {}
    assert labels_after_defaults(unlabelled, labelled) == {QUEUE: "night", PRIORITY: "sweep"}


@pytest.mark.parametrize("kind", SERVING_KINDS)
def test_an_adopted_serving_object_is_queued_once_it_has_no_ready_pods(kind: str) -> None:
    """It was created before its namespace became a team's. Kueue adds no queue to ready pods."""
    job = job_with_gpu(kind)
    stopped = job_with_gpu(kind) | {"status": {"replicas": 0}}
    ready = job_with_gpu(kind) | {"status": {"readyReplicas": 2}}
    assert labels_after_defaults(job, stopped) == {QUEUE: "default", PRIORITY: "training"}
    assert labels_after_defaults(job, ready) == {}


@pytest.mark.parametrize("kind", SERVING_KINDS)
def test_labels_on_the_pods_of_a_serving_object_count_for_it(kind: str) -> None:
    """Kueue reads the object only, and overwrites the labels of the pods."""
    job = job_with_gpu(kind)
    path, template = list(get_pod_templates(job))[-1]
    template["metadata"]["labels"] = {"app": "it", QUEUE: "night", PRIORITY: "sweep"}
    assert labels_after_defaults(job) == {QUEUE: "night", PRIORITY: "sweep"}
    template["metadata"]["labels"][PRIORITY] = "urgent"
    (complaint,) = complaints(AdmissionRequest(job, team=TEAM))
    assert complaint.startswith(
        f"{path}.metadata.labels[{PRIORITY}] is 'urgent', which is not a priority class"
    )


@pytest.mark.parametrize(
    ("job", "in_scope", "labelled"),
    [
        pytest.param(
            with_owner(job_with_gpu("Job"), "batch/v1", "CronJob"),
            True,
            True,
            id="the Job of a CronJob: Kueue queues the Job",
        ),
        pytest.param(
            with_owner(job_with_gpu("Deployment"), "serving.example/v1", "Model"),
            True,
            True,
            id="the Deployment of an operator",
        ),
        pytest.param(
            with_owner(job_with_gpu("Job"), "jobset.x-k8s.io/v1alpha2", "JobSet"),
            False,
            False,
            id="the Job of a JobSet",
        ),
        pytest.param(
            with_owner(job_with_gpu("RayCluster"), "ray.io/v1", "RayJob"),
            False,
            False,
            id="the RayCluster of a RayJob",
        ),
        pytest.param(
            with_owner(
                job_with_gpu("StatefulSet"), "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"
            ),
            False,
            False,
            id="the StatefulSet of a LeaderWorkerSet",
        ),
        pytest.param(job_with_gpu("Pod"), True, True, id="a pod without owner"),
        pytest.param(
            with_owner(job_with_gpu("Pod"), "batch/v1", "Job"), False, False, id="the pod of a Job"
        ),
        pytest.param(
            with_owner(job_with_gpu("Pod"), "apps/v1", "ReplicaSet"),
            False,
            False,
            id="the pod of a ReplicaSet",
        ),
        pytest.param(
            with_owner(job_with_gpu("Pod", **{PRIORITY: "sweep"}), "apps/v1", "ReplicaSet"),
            True,
            False,
            id="the pod of a ReplicaSet with a priority",
        ),
    ],
)
def test_an_object_that_its_owner_answers_for_is_ignored(
    job: Json, in_scope: bool, labelled: bool
) -> None:
    assert is_in_scope(AdmissionRequest(job, team=TEAM)) is in_scope
    assert (QUEUE in labels_after_defaults(job)) is labelled


def test_a_replica_set_cannot_bypass_the_highest_class() -> None:
    pod = job_with_gpu("Pod", **{PRIORITY: "inference"})
    pod = with_owner(pod, "apps/v1", "ReplicaSet")
    controller = "system:serviceaccount:kube-system:replicaset-controller"
    (complaint,) = complaints(AdmissionRequest(pod, user=controller, team=TEAM))
    assert "above what team vision may use" in complaint


def test_an_app_wrapper_inside_an_app_wrapper_is_ignored() -> None:
    job = job_with_gpu("AppWrapper")
    job["spec"]["components"].append({"template": deepcopy(job)})
    assert len(list(get_pod_templates(job))) == 1


# --- the webhook configurations -------------------------------------------------------------------
def reviewed_resources(configuration: Json) -> set[tuple[str, str]]:
    rules = [rule for webhook in configuration["webhooks"] for rule in webhook["rules"]]
    return {
        (group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_both_configurations_send_reviews_of_every_kind() -> None:
    configurations: list[Any] = list(yaml.safe_load_all(CONFIGURATIONS.read_text()))
    expected = {(group, f"{kind.lower()}s") for group, kind in JOBS | SERVING | {POD}}
    assert [reviewed_resources(item) for item in configurations] == [expected, expected]
