"""Pods get the runtime from Cede's own image when their job asks for it."""

from copy import deepcopy
from dataclasses import replace

import pytest

from cede.api.names import RUNTIME, SIZES
from cede.api.objects import Json
from elastic_runtime import contract
from tests.builders.job_kinds import job_of_kind, kinds_with_templates, pod_spec
from tests.builders.jobs import TEAM, elastic_job, plain_job, running_job, with_owner
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.kinds import get_pod_templates
from webhook.node_fit import sum_requests
from webhook.rules import complaints
from webhook.runtime_injection import MOUNT, NAME, OWN_PATH
from webhook.team import Team

IMAGE = "registry.example/cede@sha256:0123"
KNOWING = replace(TEAM, runtime_image=IMAGE)
UNKNOWING = replace(TEAM, runtime_image="")
INJECT = {RUNTIME: "inject"}
WRAP = {RUNTIME: "wrap"}
WITH_TEMPLATES = kinds_with_templates()


def job(kind: str = "Job", annotations: Json | None = None) -> Json:
    made = job_of_kind(kind, pod_spec({"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}))
    return made | {"metadata": made["metadata"] | {"annotations": dict(annotations or {})}}


def create(made: Json, team: Team = KNOWING) -> Json:
    return apply_defaults(AdmissionRequest(made, team=team))


def update(old: Json, new: Json, team: Team = KNOWING) -> Json:
    return apply_defaults(AdmissionRequest(new, old, "ada", team))


def refusal(made: Json, team: Team = KNOWING) -> list[str]:
    return complaints(AdmissionRequest(made, team=team))


def pods(made: Json) -> list[Json]:
    return [template["spec"] for _, template in get_pod_templates(made)]


def has_runtime(made: Json) -> set[bool]:
    return {NAME in str(pod.get("initContainers")) for pod in pods(made)}


def paths(pod: Json) -> list[Json]:
    """The variables of the first container that are about PYTHONPATH."""
    variables = pod["containers"][0]["env"]
    return [item for item in variables if item["name"] in ("PYTHONPATH", OWN_PATH)]


def container_of(made: Json) -> Json:
    """The first of the first template."""
    container: Json = pods(made)[0]["containers"][0]
    return container


def with_env(*variables: Json) -> Json:
    made = plain_job(annotations=INJECT)
    container_of(made)["env"] = list(variables)
    return made


def with_command(command: str, **more: list[str]) -> Json:
    made = elastic_job(annotations=WRAP)
    container_of(made).update(command=command.split(), **more)
    return made


# --- a new job ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_all_pods_of_a_kind_have_the_runtime(kind: str) -> None:
    after = create(job(kind, INJECT))
    for pod in pods(after):
        assert pod["volumes"] == [{"name": NAME, "emptyDir": {"sizeLimit": "64Mi"}}]
        (init_container,) = pod["initContainers"]
        assert init_container["image"] == IMAGE
        assert init_container["command"][-2:] == [MOUNT, str(contract.VERSION)]
        (container,) = pod["containers"]
        assert container["volumeMounts"] == [{"name": NAME, "mountPath": MOUNT, "readOnly": True}]
        assert paths(pod) == [{"name": "PYTHONPATH", "value": MOUNT}]
    assert create(after) == after


@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_nothing_is_added_unless_it_is_asked_for(kind: str) -> None:
    assert has_runtime(create(job(kind))) == {False}
    assert has_runtime(create(job(kind, {RUNTIME: "image"}))) == {False}


def test_the_init_container_fulfils_pod_security_restricted() -> None:
    (init_container,) = pods(create(job("Job", INJECT)))[0]["initContainers"]
    security = init_container["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 65532)
    assert not security["allowPrivilegeEscalation"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"limits": {"nvidia.com/gpu": "1"}}, id="accelerators only"),
        pytest.param(
            {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            id="guaranteed",
        ),
    ],
)
def test_a_pod_requests_no_more_than_before(resources: Json) -> None:
    """Neither more of a resource nor one more: a queue without it would never admit the job. A pod
    stays guaranteed only if all its containers have limits that equal their requests."""
    made = plain_job(annotations=INJECT)
    container_of(made)["resources"] = resources
    (pod,) = pods(create(made))
    assert sum_requests(pod) == sum_requests(pods(made)[0])
    own = {name: amounts for name, amounts in resources.items() if "cpu" in amounts}
    assert pod["initContainers"][0]["resources"] == own


def test_only_the_container_that_trains_has_the_runtime_and_ours_is_first() -> None:
    made = elastic_job(annotations=INJECT)
    (pod,) = pods(made)
    pod["containers"].insert(0, {"name": "sidecar"})
    pod["initContainers"] = [{"name": "fetch"}]
    (pod,) = pods(create(made))
    assert [item["name"] for item in pod["initContainers"]] == [NAME, "fetch"]
    assert "volumeMounts" not in pod["containers"][0]
    mounts = [mount["name"] for mount in pod["containers"][1]["volumeMounts"]]
    assert sorted(mounts) == ["cede-control", NAME]


SECRET = {"secretKeyRef": {"name": "paths", "key": "path"}}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param([], [("PYTHONPATH", MOUNT)], id="none"),
        pytest.param(["/torch:/src"], [("PYTHONPATH", f"{MOUNT}:/torch:/src")], id="the user's"),
        pytest.param([f"/src:{MOUNT}"], [("PYTHONPATH", f"/src:{MOUNT}")], id="in its own place"),
        pytest.param(
            [SECRET],
            [(OWN_PATH, SECRET), ("PYTHONPATH", f"{MOUNT}:$({OWN_PATH})")],
            id="from another object",
        ),
    ],
)
def test_the_runtime_comes_first_in_the_python_path(own: list[object], expected: object) -> None:
    variables = [
        {"name": "PYTHONPATH", "valueFrom" if isinstance(value, dict) else "value": value}
        for value in own
    ]
    live = create(with_env({"name": "A", "value": "1"}, *variables))
    made = paths(pods(live)[0])
    assert [(item["name"], item.get("value", item.get("valueFrom"))) for item in made] == expected
    # kubectl apply merges the variables of the file into those that are there
    for variable, new in zip(made[-1:], variables, strict=False):
        variable.update(new)
    assert create(live) == create(with_env({"name": "A", "value": "1"}, *variables))


def test_a_failure_of_the_container_is_in_its_status() -> None:
    (pod,) = pods(create(job("Job", INJECT)))
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_train_job_hands_it_to_its_job_set() -> None:
    (patch,) = create(job("TrainJob", INJECT))["spec"]["runtimePatches"]
    annotations = patch["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert annotations == INJECT
    child = with_owner(job("JobSet", annotations), "trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert has_runtime(create(child)) == {True}


# --- the default of the policy --------------------------------------------------------------------
INJECTING = replace(KNOWING, injects_runtime=True)


def test_the_policys_default_is_for_elastic_jobs() -> None:
    assert has_runtime(create(elastic_job(), INJECTING)) == {True}
    assert has_runtime(create(elastic_job(annotations={RUNTIME: "image"}), INJECTING)) == {False}
    assert has_runtime(create(plain_job(), INJECTING)) == {False}
    live = running_job(elastic_job(), 2)
    assert update(live, deepcopy(live), INJECTING) == live


# --- the command ----------------------------------------------------------------------------------
def test_a_command_is_rewritten_on_request_only() -> None:
    made = with_command("torchrun", args=["--nnodes", "2", "train.py", "--lr", "1"])
    container = container_of(create(made))
    started = "python -m elastic_runtime --restart -- train.py --lr 1"
    assert (" ".join(container["command"]), "args" in container) == (started, False)
    made["metadata"]["annotations"][RUNTIME] = "inject"
    assert container_of(create(made))["command"] == ["torchrun"]


# --- updates --------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_an_update_gets_back_what_it_lacks_also_after_an_upgrade(kind: str) -> None:
    live = create(job(kind, INJECT))
    file = job(kind, INJECT)
    file["metadata"]["labels"] = live["metadata"]["labels"]
    upgraded = replace(KNOWING, runtime_image="registry.example/cede:2")
    assert update(live, file, upgraded) == live
    assert update(live, deepcopy(live), upgraded) == live


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(elastic_job(annotations=INJECT), id="inject"),
        pytest.param(with_command("torchrun train.py"), id="wrap"),
    ],
)
def test_an_elastic_job_that_is_applied_or_replaced_keeps_its_pods(made: Json) -> None:
    live = create(made)
    live["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "1234"
    assert complaints(AdmissionRequest(made, live, "ada", KNOWING)) == []
    assert update(live, deepcopy(made))["spec"]["template"] == live["spec"]["template"]
    assert update(live, deepcopy(live)) == live


def test_pods_that_look_as_if_they_had_it_do_not_change() -> None:
    """Kueue could not start the job if its update changed the pods."""
    old = create(job("Job", INJECT))
    del old["metadata"]["annotations"][RUNTIME]
    container_of(old)["env"] = []
    assert update(old, deepcopy(old)) == old
    container_of(old)["volumeMounts"] = []
    assert update(old, deepcopy(old)) == old


def test_a_copy_of_a_job_has_the_present_runtime() -> None:
    copy = create(elastic_job(annotations=INJECT), replace(KNOWING, runtime_image="old"))
    assert create(copy) == create(elastic_job(annotations=INJECT))


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        pytest.param(
            job("JobSet", {RUNTIME: "injected"}),
            "metadata.annotations[cede.dev/runtime] is 'injected': use inject, wrap or image",
            id="misspelt",
        ),
        pytest.param(
            job("SparkApplication", INJECT),
            "metadata.annotations[cede.dev/runtime] is not supported on a SparkApplication, which "
            "has no pod template: remove it",
            id="a kind without templates",
        ),
        pytest.param(
            job("TrainJob", WRAP),
            "metadata.annotations[cede.dev/runtime] is wrap, which is for elastic jobs: use "
            f"inject, or put {SIZES} on a batch/v1 Job",
            id="a command of a job that is not elastic",
        ),
        pytest.param(
            with_command("sh -c run"),
            "spec.template.spec.containers[train].command is 'sh -c run', which neither starts "
            "torchrun nor python: write `python -m elastic_runtime ...` there yourself, and use "
            "inject",
            id="a command that cannot be rewritten",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(made: Json, complaint: str) -> None:
    assert refusal(made) == [complaint]


def test_a_webhook_that_does_not_know_its_image_says_so() -> None:
    (complaint,) = refusal(job("Job", INJECT), UNKNOWING)
    assert "that Deployment cede-webhook is in namespace cede-system" in complaint
    assert refusal(job("Job", {RUNTIME: "image"}), UNKNOWING) == []


def test_it_cannot_be_changed_later() -> None:
    live = create(job("JobSet"))
    new = live | {"metadata": live["metadata"] | {"annotations": INJECT}}
    assert complaints(AdmissionRequest(new, live, "ada", KNOWING)) == [
        "metadata.annotations[cede.dev/runtime] cannot be changed, because the pods have it: "
        "delete the JobSet and create it again"
    ]
