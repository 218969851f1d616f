"""Nobody marks an object so that Kueue counts its pods by another Workload, or ends that."""

import pytest

from cede.api.names import MULTIKUEUE_ORIGIN, POD_GROUP, PREBUILT_WORKLOAD, SUSPENDING_PARENT
from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, pod_spec
from tests.builders.jobs import TEAM, plain_job, with_owner
from webhook.admission import AdmissionRequest
from webhook.kinds import CONTROLLER_MANAGER, get_pod_templates
from webhook.rules import complaints

NAMED = {PREBUILT_WORKLOAD: "leaderworkerset-llm-0-abcde"}


def server(place: str) -> Json:
    deployment = job_of_kind("Deployment", pod_spec())
    deployment["spec"]["template"].setdefault("metadata", {})[place] = NAMED
    return deployment


@pytest.mark.parametrize(
    ("job", "field"),
    [
        pytest.param(plain_job(labels=NAMED), "metadata.labels", id="label"),
        pytest.param(plain_job(annotations=NAMED), "metadata.annotations", id="annotation"),
        pytest.param(server("labels"), "spec.template.metadata.labels", id="label of its pods"),
        pytest.param(
            server("annotations"), "spec.template.metadata.annotations", id="annotation of its pods"
        ),
    ],
)
def test_a_job_that_names_the_workload_of_another_is_refused(job: Json, field: str) -> None:
    request = AdmissionRequest(job, user="alice", team=TEAM)
    [message] = complaints(request)
    assert message.startswith(f"{field}[{PREBUILT_WORKLOAD}] names the Workload of another job")
    assert complaints(AdmissionRequest(job, user="alice", team=TEAM, old=job)) == []


def test_a_pod_without_a_controller_is_refused_too() -> None:
    [message] = complaints(AdmissionRequest(named_pod(), user="alice", team=TEAM))
    assert message.startswith(f"metadata.annotations[{PREBUILT_WORKLOAD}]")


def test_kueue_names_the_workload_of_pods() -> None:
    """Of a StatefulSet and a LeaderWorkerSet."""
    pod = with_owner(named_pod(), "apps/v1", "StatefulSet")
    assert complaints(AdmissionRequest(pod, user=CONTROLLER_MANAGER, team=TEAM)) == []


def test_multikueue_names_the_workload_of_jobs_that_it_dispatches() -> None:
    user = "system:serviceaccount:kueue-system:kueue-controller-manager"
    job = plain_job(labels=NAMED)
    assert complaints(AdmissionRequest(job, user=user, team=TEAM)) == []
    impostor = "system:serviceaccount:vision:kueue-controller-manager"
    assert complaints(AdmissionRequest(job, user=impostor, team=TEAM))


def marked_template(kind: str, place: str, marks: Json) -> tuple[Json, str]:
    """An object whose last pod template has the marks, and the field that has them."""
    job = job_of_kind(kind, pod_spec())
    path, template = list(get_pod_templates(job))[-1]
    template.setdefault("metadata", {})[place] = marks
    return job, f"{path}.metadata.{place}"


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_server_whose_template_makes_a_group_is_refused(kind: str, place: str) -> None:
    job, field = marked_template(kind, place, {POD_GROUP: "g"})
    [message] = complaints(AdmissionRequest(job, user="alice", team=TEAM))
    assert message.startswith(f"{field}[{POD_GROUP}] puts the pods into a group")


def test_who_creates_pods_may_group_them() -> None:
    """As users of plain pods do. Members cannot create pods."""
    pod = job_of_kind("Pod", pod_spec())
    pod["metadata"] = {"name": "it", "labels": {POD_GROUP: "g"}}
    assert complaints(AdmissionRequest(pod, user="alice", team=TEAM)) == []


@pytest.mark.parametrize(
    ("kind", "parent", "is_refused"),
    [
        pytest.param("StatefulSet", "deployment", True, id="of another controller"),
        pytest.param("StatefulSet", "", True, id="of a controller without a name"),
        pytest.param("StatefulSet", "statefulset", False, id="as Kueue writes it"),
        pytest.param("Deployment", "statefulset", False, id="where Kueue overwrites it"),
    ],
)
def test_no_stateful_set_is_left_to_another_controller(
    kind: str, parent: str, is_refused: bool
) -> None:
    job, field = marked_template(kind, "annotations", {SUSPENDING_PARENT: parent})
    messages = complaints(AdmissionRequest(job, user="alice", team=TEAM))
    assert [message.startswith(f"{field}[{SUSPENDING_PARENT}]") for message in messages] == [
        True
    ] * is_refused


@pytest.mark.parametrize("origin", ["elsewhere", ""])
def test_only_multikueue_says_that_it_made_a_job(origin: str) -> None:
    job = plain_job(labels={MULTIKUEUE_ORIGIN: origin})
    [message] = complaints(AdmissionRequest(job, user="alice", team=TEAM))
    assert message.startswith(f"metadata.labels[{MULTIKUEUE_ORIGIN}] is written by MultiKueue only")


def named_pod() -> Json:
    pod = job_of_kind("Pod", pod_spec())
    pod["metadata"] = {"name": "it", "annotations": NAMED}
    return pod
