"""Nobody takes the Workload of another job: Kueue would end it where they differ, and the pods of
the other one would run on without quota."""

import pytest

from cede.api.names import PREBUILT_WORKLOAD
from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, pod_spec
from tests.builders.jobs import TEAM, plain_job, with_owner
from webhook.admission import AdmissionRequest
from webhook.kinds import CONTROLLER_MANAGER
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


def named_pod() -> Json:
    pod = job_of_kind("Pod", pod_spec())
    pod["metadata"] = {"name": "it", "annotations": NAMED}
    return pod
