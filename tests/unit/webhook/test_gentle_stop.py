"""The time that pods of every kind have to save when they are stopped."""

from copy import deepcopy
from typing import Any

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, kinds_with_templates, pod_spec
from tests.builders.jobs import TEAM, elastic_job, plain_job, with_owner
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.gentle_stop import RUNTIME_PATCH, TORCHRUN_TIMEOUT
from webhook.kinds import get_pod_templates
from webhook.rules import complaints

GRACE = "cede.dev/grace"
SAVE_TIME = "cede.dev/save-time"
WITH_TEMPLATES = kinds_with_templates()
FIELD = "terminationGracePeriodSeconds"


def job(
    kind: str = "Job", annotations: dict[str, str] | None = None, own_s: int | None = None
) -> Json:
    own: Json = {} if own_s is None else {FIELD: own_s}
    made = job_of_kind(kind, pod_spec(**own))
    if annotations:
        made["metadata"]["annotations"] = annotations
    return made


def create(made: Json) -> Json:
    return apply_defaults(AdmissionRequest(made, team=TEAM))


def update(old: Json, new: Json) -> Json:
    return apply_defaults(AdmissionRequest(new, old, "ada", TEAM))


def refusal(made: Json) -> list[str]:
    return complaints(AdmissionRequest(made, team=TEAM))


def graces(made: Json) -> set[Any]:
    return {template["spec"].get(FIELD) for _, template in get_pod_templates(made)}


def timeouts(made: Json) -> set[str]:
    """Of torchrun, in all containers."""
    return {
        variable["value"]
        for _, template in get_pod_templates(made)
        for container in template["spec"]["containers"]
        for variable in container.get("env", [])
        if variable["name"] == TORCHRUN_TIMEOUT
    }


# --- a new job ------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_all_pods_of_a_kind_get_the_grace_of_the_job(kind: str) -> None:
    after = create(job(kind, {GRACE: "2m"}))
    assert graces(after) == {120}
    assert timeouts(after) == {"115"}


@pytest.mark.parametrize(
    ("annotation", "own_s", "expected_s"),
    [
        pytest.param(None, None, 60, id="of the policy"),
        pytest.param(None, 30, 60, id="of the policy; Kubernetes filled in its default"),
        pytest.param(None, 1, 1, id="the pod's own is shorter, and the job says nothing"),
        pytest.param(None, 300, 300, id="the pod's own is longer"),
        pytest.param("90s", None, 90, id="of the job"),
        pytest.param("90s", 1, 90, id="of the job, longer than the pod's own"),
        pytest.param("10s", 30, 30, id="of the job, shorter than the pod's own: never lowered"),
        pytest.param("1h", None, 600, id="limited by the policy"),
    ],
)
def test_the_grace_period_of_pods(
    annotation: str | None, own_s: int | None, expected_s: int
) -> None:
    annotations = {GRACE: annotation} if annotation else None
    after = create(job(annotations=annotations, own_s=own_s))
    assert graces(after) == {expected_s}
    assert timeouts(after) == {str(max(1, expected_s - 5))}


def test_the_users_own_time_for_torchrun_stays() -> None:
    made = job("Deployment")
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": TORCHRUN_TIMEOUT, "value": "7"}]
    live = create(made)
    assert timeouts(live) == {"7"}
    assert timeouts(update(live, with_grace(live, "2m"))) == {"7"}


def test_an_elastic_job_has_torchruns_time_too() -> None:
    assert timeouts(create(elastic_job(annotations={GRACE: "2m"}))) == {"115"}


# --- a TrainJob -----------------------------------------------------------------------------------
def test_a_train_job_hands_its_grace_to_its_job_set() -> None:
    after = create(job("TrainJob", {GRACE: "2m"}))
    (patch,) = after["spec"]["runtimePatches"]
    assert patch["manager"] == RUNTIME_PATCH
    annotations = patch["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert annotations == {GRACE: "2m"}
    assert create(after) == after
    assert update(after, after) == after
    child = with_owner(job("JobSet", annotations), "trainer.kubeflow.org/v1alpha1", "TrainJob")
    after = create(child)
    assert graces(after) == {120}
    assert "labels" not in after["metadata"]


def test_a_train_job_without_annotations_is_not_patched() -> None:
    assert "runtimePatches" not in create(job("TrainJob"))["spec"]


@pytest.mark.parametrize(
    "others", [(), ("ada.example",), ("ada.example", "kueue.x-k8s.io/manager")]
)
@pytest.mark.parametrize("annotation", ["2m", "3m", None])
def test_a_running_train_job_is_applied_again_from_its_file(
    others: tuple[str, ...], annotation: str | None
) -> None:
    """Trainer refuses another list of patches, also in another order, while the job runs."""
    live = create(job("TrainJob", {GRACE: "2m"}))
    patches = [{"manager": name} for name in others]
    ours = live["spec"]["runtimePatches"]
    live["spec"]["runtimePatches"] = [*patches[:1], *ours, *patches[1:]]
    file = job("TrainJob", {GRACE: annotation} if annotation else None)
    if patches:
        file["spec"]["runtimePatches"] = patches
    assert update(live, file)["spec"]["runtimePatches"] == live["spec"]["runtimePatches"]


def test_an_older_train_job_is_not_patched() -> None:
    old = job("TrainJob")
    assert "runtimePatches" not in update(old, job("TrainJob", {GRACE: "2m"}))["spec"]


# --- after a stop ---------------------------------------------------------------------------------
AFTER = "cede.dev/after-preemption"


@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_what_becomes_of_a_job_after_a_stop_is_on_its_pods(kind: str) -> None:
    live = create(job(kind, {AFTER: "requeue"}))
    file = job(kind, {AFTER: "requeue"})
    for made in (live, update(live, file)):
        for _, template in get_pod_templates(made):
            assert template["metadata"]["annotations"][AFTER] == "requeue"


def test_a_train_job_hands_it_to_its_job_set() -> None:
    (patch,) = create(job("TrainJob", {AFTER: "stop"}))["spec"]["runtimePatches"]
    metadata = patch["trainingRuntimeSpec"]["template"]["metadata"]
    assert metadata["annotations"] == {AFTER: "stop"}


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        pytest.param(
            job("JobSet", {AFTER: "delete"}),
            "metadata.annotations[cede.dev/after-preemption] is 'delete': use requeue or stop",
            id="another word",
        ),
        pytest.param(
            job("Deployment", {AFTER: "stop"}),
            "metadata.annotations[cede.dev/after-preemption] is stop, but a Deployment makes new "
            "pods, which wait in its queue: remove the annotation, or make it a Job",
            id="a Deployment",
        ),
    ],
)
def test_what_cannot_become_of_a_job_is_refused(made: Json, complaint: str) -> None:
    assert refusal(made) == [complaint]


def test_what_becomes_of_a_job_cannot_be_changed() -> None:
    live = create(job("JobSet", {AFTER: "stop"}))
    new = create(job("JobSet"))
    assert complaints(AdmissionRequest(new, live, "ada", TEAM)) == [
        "metadata.annotations[cede.dev/after-preemption] cannot be changed, because the pods have "
        "it: delete the JobSet and create it again"
    ]


# --- updates --------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_an_update_gets_back_what_it_lacks(kind: str) -> None:
    live = create(job(kind, {GRACE: "2m"}))
    file = job(kind, {GRACE: "2m"}, own_s=30)
    file["metadata"]["labels"] = live["metadata"]["labels"]
    after = update(live, file)
    assert graces(after) == {120}
    assert timeouts(after) == {"115"}


@pytest.mark.parametrize("kind", WITH_TEMPLATES)
def test_an_older_object_does_not_change(kind: str) -> None:
    """A changed template would be refused, or would replace all pods of a Deployment."""
    old = job(kind)
    old["metadata"]["labels"] = create(old)["metadata"]["labels"]
    assert update(old, deepcopy(old)) == old


def with_grace(live: Json, grace: str) -> Json:
    return deepcopy(live) | {"metadata": live["metadata"] | {"annotations": {GRACE: grace}}}


def test_another_grace_of_a_deployment_reaches_its_pods() -> None:
    live = create(job("Deployment"))
    after = update(live, with_grace(live, "2m"))
    assert graces(after) == {120}
    assert timeouts(after) == {"115"}


def test_a_shorter_grace_of_a_deployment_replaces_no_pods() -> None:
    live = create(job("Deployment", {GRACE: "2m"}))
    container = live["spec"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "LATER", "value": "x"})
    assert update(live, with_grace(live, "1m"))["spec"] == live["spec"]


def test_another_grace_of_a_running_job_leaves_its_pods_alone() -> None:
    live = create(job("Job"))
    new = with_grace(live, "2m")
    assert update(live, new) == new


# --- what is refused ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        pytest.param(
            job("JobSet", {GRACE: "soon"}),
            "metadata.annotations[cede.dev/grace]: 'soon' is not a duration: write it like 90s, "
            "5m or 1h",
            id="a grace of any kind",
        ),
        pytest.param(
            job("Pod", {SAVE_TIME: "long"}),
            "metadata.annotations[cede.dev/save-time]: 'long' is not a duration: write it like "
            "90s, 5m or 1h",
            id="a time to save",
        ),
        pytest.param(
            job("JobSet", {SAVE_TIME: "90s"}),
            "metadata.annotations[cede.dev/save-time] is 90s, but the job has 60 s to save when it "
            "is stopped: set metadata.annotations[cede.dev/grace] to at least 90s",
            id="longer than the policy's default",
        ),
        pytest.param(
            job("TrainJob", {SAVE_TIME: "2m", GRACE: "90s"}),
            "metadata.annotations[cede.dev/save-time] is 2m, but the job has 90 s to save when it "
            "is stopped: set metadata.annotations[cede.dev/grace] to at least 120s",
            id="longer than the job's grace",
        ),
        pytest.param(
            job("Deployment", {SAVE_TIME: "1h", GRACE: "1h"}),
            "metadata.annotations[cede.dev/save-time] is 1h, but the job has 600 s to save when it "
            "is stopped: the policy allows 600 s at most, so it must save faster",
            id="longer than the policy allows",
        ),
        pytest.param(
            elastic_job(annotations={SAVE_TIME: "5m"}, pod={"terminationGracePeriodSeconds": 600}),
            "metadata.annotations[cede.dev/save-time] is 5m, but the job has 60 s to save when it "
            "is stopped: set metadata.annotations[cede.dev/grace] to at least 300s",
            id="an elastic job is asked, whatever its pods have",
        ),
    ],
)
def test_a_time_that_does_not_suffice_is_refused(made: Json, complaint: str) -> None:
    assert refusal(made) == [complaint]


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(job("JobSet", {SAVE_TIME: "60s"}), id="as long as the policy's default"),
        pytest.param(job("Job", {SAVE_TIME: "5m", GRACE: "5m"}), id="as long as the job's grace"),
        pytest.param(job("Job", {SAVE_TIME: "5m"}, own_s=300), id="as the pods' own"),
        pytest.param(plain_job(), id="no annotation"),
    ],
)
def test_a_time_that_suffices_is_accepted(made: Json) -> None:
    assert refusal(made) == []
