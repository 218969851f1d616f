"""What the pods of a JobSet get that start the runtime, at the size that its Job has."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from cede.api.objects import Json
from elastic_runtime import contract
from tests.builders.jobs import TEAM, with_owner
from tests.paths import TREE
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.failure_policy import NO_LIMIT
from webhook.rules import complaints

CEDE_TORCH = TREE / "deploy/components/trainer/cede-torch.yaml"
INJECT = {"cede.dev/runtime": "inject"}
KNOWING = replace(TEAM, runtime_image="registry.example/cede:1")
"""The webhook knows its own image."""
TRAINER = "system:serviceaccount:kubeflow-system:kubeflow-trainer-controller-manager"


def job_set(
    pods: int = 2, gpus: int = 1, annotations: dict[str, str] | None = None, **pod: Any
) -> Json:
    """As Trainer makes it of a TrainJob with the runtime `cede-torch`."""
    runtime = yaml.safe_load(CEDE_TORCH.read_text())
    spec = runtime["spec"]["template"]["spec"]
    made: Json = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "gpt", "namespace": "vision", "annotations": annotations or {}},
        "spec": spec,
    }
    job = job_of(made)
    job["spec"] |= {"parallelism": pods, "completions": pods}
    template = job["spec"]["template"]["spec"]
    template |= pod
    template["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return with_owner(made, "trainer.kubeflow.org/v1alpha1", "TrainJob")


def users(made: Json) -> Json:
    del made["metadata"]["ownerReferences"]
    return made


def job_of(made: Json) -> Json:
    (replicated,) = made["spec"]["replicatedJobs"]
    template: Json = replicated["template"]
    return template


def pod_of(made: Json) -> Json:
    pod: Json = job_of(made)["spec"]["template"]["spec"]
    return pod


def env_of(made: Json) -> dict[str, Any]:
    (container,) = pod_of(made)["containers"]
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom"))
        for variable in container.get("env", [])
    }


def create(made: Json) -> Json:
    assert complaints(AdmissionRequest(made, None, TRAINER, KNOWING)) == []
    return apply_defaults(AdmissionRequest(made, None, TRAINER, KNOWING))


def update(old: Json, new: Json) -> Json:
    assert complaints(AdmissionRequest(new, old, TRAINER, KNOWING)) == []
    return apply_defaults(AdmissionRequest(new, old, TRAINER, KNOWING))


def test_its_pods_find_each_other_and_have_the_key() -> None:
    after = create(job_set(pods=4, gpus=8))
    env = env_of(after)
    assert (env[contract.SIZES_ENV], env[contract.RANKS_ENV]) == ("4", "8")
    assert env[contract.PEERS_ENV] == "cede-peers"
    assert after["spec"]["network"]["subdomain"] == "cede-peers"
    # that of the Job which JobSet makes: its pods are `gpt-node-0-<index>`
    label = env[contract.JOB_ENV]["fieldRef"]["fieldPath"]
    assert label == "metadata.labels['batch.kubernetes.io/job-name']"
    assert pod_of(after)["volumes"][0]["secret"]["secretName"] == "cede-control"


def test_a_pod_that_leaves_or_is_lost_is_made_again_and_fails_nothing() -> None:
    spec = job_of(create(job_set()))["spec"]
    first, second = spec["podFailurePolicy"]["rules"]
    assert first["action"] == second["action"] == "Ignore"
    assert first["onExitCodes"]["containerName"] == "node"
    assert spec["podReplacementPolicy"] == "Failed"
    assert (spec["backoffLimit"], spec["backoffLimitPerIndex"]) == (6, NO_LIMIT)


@pytest.mark.parametrize(
    ("annotations", "pod", "grace_s"),
    [
        pytest.param({}, {}, 60, id="of the policy"),
        pytest.param({"cede.dev/grace": "2m"}, {}, 120, id="of the TrainJob"),
        pytest.param({}, {"terminationGracePeriodSeconds": 300}, 300, id="of the runtime"),
    ],
)
def test_the_launcher_knows_the_grace_period_of_its_pod(
    annotations: dict[str, str], pod: Json, grace_s: int
) -> None:
    after = create(job_set(annotations=annotations, **pod))
    assert pod_of(after)["terminationGracePeriodSeconds"] == grace_s
    assert env_of(after)[contract.GRACE_ENV] == str(grace_s)


@pytest.mark.parametrize("pods", [2, 3])
@pytest.mark.parametrize("annotations", [{}, INJECT], ids=["of the image", "injected"])
def test_an_update_without_our_fields_gets_them_back(
    pods: int, annotations: dict[str, str]
) -> None:
    """Trainer applies the JobSet again when it was suspended, and JobSet refuses another one. The
    size is that with which the pods were made."""
    live = create(job_set(annotations=annotations))
    assert ("initContainers" in pod_of(live)) == bool(annotations)
    after = update(live, job_set(pods=pods, annotations=annotations))
    expected = deepcopy(live)
    job_of(expected)["spec"] |= {"parallelism": pods, "completions": pods}
    assert after == expected
    assert update(live, live) == live
    assert create(live) == live


def test_an_update_of_one_that_an_older_version_made_adds_nothing() -> None:
    """JobSet refuses any change of its Jobs."""
    live = create(job_set())
    del job_of(live)["spec"]["backoffLimitPerIndex"]
    del job_of(live)["spec"]["template"]["metadata"]["annotations"]
    assert update(live, live) == live


# --- beside other fields of a JobSet --------------------------------------------------------------
@pytest.mark.parametrize("policy", [None, "", "Never"])
def test_its_pods_are_never_restarted_as_kubernetes_demands(policy: str | None) -> None:
    """JobSet's own default is OnFailure, with which Kubernetes refuses a podFailurePolicy."""
    made = job_set(restartPolicy=policy)
    if policy is None:
        del pod_of(made)["restartPolicy"]
    after = create(users(made))
    assert pod_of(after)["restartPolicy"] == "Never"
    assert update(after, users(job_set())) == after


def test_the_pods_of_a_train_job_are_never_restarted_whatever_its_runtime_says() -> None:
    """Its user cannot change the runtime; Kubernetes would refuse the Job, and nobody would say so.
    The launcher restarts scripts that fail."""
    after = create(job_set(restartPolicy="OnFailure"))
    assert pod_of(after)["restartPolicy"] == "Never"
    assert update(after, job_set(restartPolicy="OnFailure")) == after


def test_another_restart_policy_is_refused_in_a_job_set_of_a_user() -> None:
    assert complaints(AdmissionRequest(users(job_set(restartPolicy="OnFailure")), team=TEAM)) == [
        "spec.replicatedJobs[0].template.spec.template.spec.restartPolicy is OnFailure: pods with "
        "the label cede.dev/elastic need Never, set that or remove the label"
    ]


def test_another_subdomain_is_refused_and_ours_is_not() -> None:
    made = users(job_set())
    made["spec"]["network"]["subdomain"] = "mine"
    (complaint,) = complaints(AdmissionRequest(made, team=TEAM))
    assert complaint.startswith("spec.network.subdomain is 'mine': ")
    assert complaint.endswith("needs cede-peers, where they find each other: remove the field")
    del made["spec"]["network"]
    after = create(made)
    assert after["spec"]["network"] == {"subdomain": "cede-peers"}
    assert update(after, after) == after


def with_unlabelled(made: Json) -> Json:
    other = deepcopy(made["spec"]["replicatedJobs"][0]) | {"name": "data"}
    del other["template"]["spec"]["template"]["metadata"]
    other["template"]["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    made["spec"]["replicatedJobs"].append(other)
    return made


def test_pods_without_the_label_would_lose_their_names_so_they_are_refused() -> None:
    made = with_unlabelled(users(job_set()))
    (complaint,) = complaints(AdmissionRequest(made, team=TEAM))
    assert complaint.startswith("spec.replicatedJobs[1] has no label cede.dev/elastic on its pods")
    assert "Make a JobSet of its own" in complaint
    assert complaints(AdmissionRequest(made, made, "ada", TEAM)) == [], "one that runs already"


def test_pods_without_the_label_that_need_no_names_are_accepted_and_left_alone() -> None:
    made = with_unlabelled(users(job_set()))
    made["spec"]["network"]["enableDNSHostnames"] = False
    before = deepcopy(made["spec"]["replicatedJobs"][1])
    assert "podFailurePolicy" not in create(made)["spec"]["replicatedJobs"][1]["template"]["spec"]
    assert made["spec"]["replicatedJobs"][1] == before
    assert create(with_unlabelled(job_set())), "Trainer's initializers"


# --- with sizes -----------------------------------------------------------------------------------
def test_the_base_of_a_surplus_knows_all_sizes_and_keeps_its_own() -> None:
    after = create(job_set(annotations={"cede.dev/sizes": "2-8/2"}))
    env = env_of(after)
    assert (env[contract.SIZES_ENV], env[contract.BASE_SIZE_ENV]) == ("2,4,6,8", "2")
    assert env[contract.SURPLUS_ENV] == "$(CEDE_JOB_SET)-surplus"
    assert job_of(after)["spec"]["parallelism"] == 2
    assert update(after, job_set(annotations={"cede.dev/sizes": "2-8/2"})) == after


def test_sizes_that_cannot_be_parsed_count_as_none_in_the_job_set_of_a_train_job() -> None:
    """The TrainJob was refused, unless the webhook did not answer then."""
    env = env_of(create(job_set(annotations={"cede.dev/sizes": "8-2"})))
    assert (env[contract.SIZES_ENV], contract.BASE_SIZE_ENV in env) == ("2", False)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        pytest.param(job_set(annotations={"cede.dev/sizes": "2-8"}), "", id="the smallest"),
        pytest.param(job_set(3, annotations={"cede.dev/sizes": "2-8"}), "is 3", id="another size"),
        pytest.param(job_set(annotations={"cede.dev/sizes": "8-2"}), "runs from 8", id="sizes"),
    ],
)
def test_a_job_set_with_sizes_runs_at_the_smallest(made: Json, words: str) -> None:
    text = "; ".join(complaints(AdmissionRequest(users(made), team=TEAM)))
    assert words in text
    assert bool(words) == bool(text)


def test_a_job_set_with_sizes_needs_the_runtime_in_one_job() -> None:
    made = users(job_set(annotations={"cede.dev/sizes": "2-8"}))
    del job_of(made)["spec"]["template"]["metadata"]
    assert "label its pods" in complaints(AdmissionRequest(made, team=TEAM))[0]
    made["spec"]["replicatedJobs"] *= 2
    assert "has one, with one replica" in complaints(AdmissionRequest(made, team=TEAM))[0]


@pytest.mark.parametrize(("nodes", "count"), [(2, 0), (4, 1)])
def test_a_train_job_with_sizes_runs_at_the_smallest(nodes: int, count: int) -> None:
    metadata = {
        "name": "gpt",
        "namespace": "vision",
        "annotations": {"cede.dev/sizes": "2-8"},
    }
    made: Json = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": metadata,
        "spec": {"runtimeRef": {"name": "cede-torch"}, "trainer": {"numNodes": nodes}},
    }
    request = AdmissionRequest(made, team=TEAM)
    assert len(complaints(request)) == count
    [patch] = apply_defaults(request)["spec"]["runtimePatches"]
    notes = patch["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert notes == {"cede.dev/sizes": "2-8"}


# --- others ---------------------------------------------------------------------------------------
def test_other_job_sets_are_left_alone() -> None:
    made = job_set()
    del made["spec"]["network"]
    del job_of(made)["spec"]["template"]["metadata"]
    after = create(made)
    assert contract.SIZES_ENV not in env_of(after)
    assert "podFailurePolicy" not in job_of(after)["spec"]
    assert "network" not in after["spec"]


def test_one_that_was_made_without_the_webhook_stays_as_it_is() -> None:
    live = job_set()
    assert contract.SIZES_ENV not in env_of(update(live, live))


def test_a_job_without_containers_is_left_to_the_api_server() -> None:
    made = job_set()
    pod_of(made)["containers"] = []
    assert "podFailurePolicy" not in job_of(create(made))["spec"]
