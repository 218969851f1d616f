"""Who may set finalizers on jobs: by others than Kubernetes' own, pods would stay without quota."""

from copy import deepcopy

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, pod_spec
from tests.builders.jobs import TEAM, plain_job
from webhook.admission import AdmissionRequest
from webhook.finalizers import FOREGROUND_DELETION
from webhook.rules import complaints

KEEP = "example.com/keep"
CURE = (
    "once the job is deleted, its pods would run outside of every quota: remove it. An operator "
    "that sets finalizers of its own needs its namespace in spec.security.controllerNamespaces of "
    "the ClusterPolicy"
)
KINDS = sorted(jobs_of_every_kind(pod_spec()).keys() - {"Pod"})


def with_finalizers(job: Json, *finalizers: str) -> Json:
    return job | {"metadata": job["metadata"] | {"finalizers": [*finalizers]}}


def refusal(job: Json, old: Json | None = None, user: str = "ada") -> list[str]:
    return complaints(AdmissionRequest(job, old, user, TEAM))


@pytest.mark.parametrize("finalizer", ["orphan", KEEP])
@pytest.mark.parametrize("kind", KINDS)
def test_a_finalizer_of_a_user_is_refused(kind: str, finalizer: str) -> None:
    plain = job_of_kind(kind, pod_spec())
    kept = with_finalizers(plain, finalizer)
    for old in (None, plain):
        assert refusal(kept, old) == [f"metadata.finalizers has {finalizer}: {CURE}"]
    assert refusal(kept, kept) == refusal(plain, kept) == [], "of before, and the cure"


def test_only_those_that_are_new_are_named() -> None:
    old = with_finalizers(plain_job(), KEEP)
    new = with_finalizers(plain_job(), KEEP, FOREGROUND_DELETION, "a/b", "c/d")
    assert refusal(new, old) == [f"metadata.finalizers has a/b, c/d: {CURE}"]


def test_very_many_are_named_in_a_few_words() -> None:
    [message] = refusal(with_finalizers(plain_job(), *(f"x/{i}" for i in range(10_000))))
    assert len(message) < 500


def test_that_of_the_webhook_is_accepted() -> None:
    assert refusal(with_finalizers(plain_job(), FOREGROUND_DELETION)) == []


def test_operators_set_finalizers() -> None:
    operator = "system:serviceaccount:kuberay-operator:kuberay-operator"
    cluster = with_finalizers(job_of_kind("RayCluster", pod_spec()), KEEP)
    assert refusal(cluster, user=operator) == []
    assert refusal(cluster, user="system:serviceaccount:vision:kuberay-operator")


def test_kueue_sets_its_own_on_pods() -> None:
    """By its webhook, when somebody creates one."""
    pod = with_finalizers(job_of_kind("Pod", pod_spec()), "kueue.x-k8s.io/managed")
    assert refusal(pod) == []


def test_what_an_app_wrapper_makes_gets_no_finalizers_either() -> None:
    plain = job_of_kind("AppWrapper", pod_spec())
    kept = deepcopy(plain)
    metadata = kept["spec"]["components"][0]["template"].setdefault("metadata", {})
    metadata["finalizers"] = [FOREGROUND_DELETION, KEEP]
    for old in (None, plain):
        assert refusal(kept, old) == [
            f"spec.components[0].template.metadata.finalizers has {KEEP}: {CURE}"
        ]
    assert refusal(kept, kept) == refusal(plain, kept) == []


@pytest.mark.parametrize("value", ["text", [1, None], {"a": "b"}])
def test_what_is_no_list_of_names_is_left_to_the_api_server(value: object) -> None:
    job = plain_job()
    job["metadata"]["finalizers"] = value
    assert refusal(job) == []
