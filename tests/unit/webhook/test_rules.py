"""Every refusal names the field in the user's own YAML, and the cure."""

from copy import deepcopy
from dataclasses import replace

import pytest

from cede.api.names import ELASTIC_JOB
from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, pod_spec
from tests.builders.jobs import (
    PRIORITY,
    QUEUE,
    TEAM,
    elastic_job,
    plain_job,
    running_job,
    with_owner,
)
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.kinds import is_in_scope
from webhook.rules import complaints
from webhook.team import Team

OWNER_COMPLAINT = (
    "metadata.ownerReferences names a controller, which only a controller may do: "
    "remove the reference"
)


@pytest.mark.parametrize(
    ("job", "complaint"),
    [
        pytest.param(
            elastic_job(labels={PRIORITY: "urgent"}),
            f"metadata.labels[{PRIORITY}] is 'urgent', which is not a priority class of this "
            f"cluster: use training or sweep",
            id="unknown class: lists the allowed ones",
        ),
        pytest.param(
            plain_job(labels={PRIORITY: "inference"}),
            f"metadata.labels[{PRIORITY}] is 'inference', which is above what team vision may "
            f"use: use training or sweep",
            id="a class above the team's highest",
        ),
        pytest.param(
            plain_job(labels={QUEUE: "research"}),
            f"metadata.labels[{QUEUE}] is 'research', which is not a queue of team vision: use "
            f"default or night, or remove the label",
            id="another team's queue",
        ),
        pytest.param(
            elastic_job(sizes="8-2"),
            "metadata.annotations[cede.dev/sizes]: '8-2' runs from 8 down to 2: put the smaller "
            "size first",
            id="sizes backwards",
        ),
        pytest.param(
            elastic_job(completionMode="NonIndexed"),
            "spec.completionMode is NonIndexed: a job with cede.dev/sizes needs Indexed",
            id="not Indexed",
        ),
        pytest.param(
            plain_job(completions=0),
            "spec.completions is 0, so the job would complete before it starts: set at least 1",
            id="nothing to complete",
        ),
        pytest.param(
            elastic_job(annotations={"cede.dev/grace": "soon"}),
            "metadata.annotations[cede.dev/grace]: 'soon' is not a duration: write it like 90s, "
            "5m or 1h",
            id="grace",
        ),
        pytest.param(
            plain_job(annotations={"cede.dev/sizes": "1,2"})
            | {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"},
            "metadata.annotations[cede.dev/sizes] is supported on a Job, JobSet, TrainJob, "
            "Deployment or LeaderWorkerSet only: remove it from this MPIJob",
            id="another kind with sizes",
        ),
    ],
)
def test_a_complaint_names_the_field_and_the_cure(job: Json, complaint: str) -> None:
    assert complaints(AdmissionRequest(job, team=TEAM)) == [complaint]


def test_all_complaints_come_at_once() -> None:
    job = elastic_job(
        7,
        "2-8/2",
        completions=6,
        completionMode="NonIndexed",
        labels={PRIORITY: "urgent", QUEUE: "research"},
        annotations={"cede.dev/grace": "1 minute"},
        pod={"restartPolicy": "OnFailure"},
    )
    texts = complaints(AdmissionRequest(job, team=TEAM))
    for word in (
        "urgent",
        "research",
        "NonIndexed",
        "OnFailure",
        "1 minute",
        "needs both to be equal",
        "parallelism is 7",
    ):
        assert sum(word in text for text in texts) >= 1, word
    assert len(texts) == len(set(texts)) == 7


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(elastic_job(), id="elastic"),
        pytest.param(
            elastic_job(pod={"containers": [{"name": "cpu"}]}), id="elastic without an accelerator"
        ),
        pytest.param(
            elastic_job(8, "1,2,4,8", labels={PRIORITY: "sweep", QUEUE: "night"}),
            id="own queue, lower class",
        ),
        pytest.param(plain_job(completionMode="NonIndexed", completions=40), id="plain"),
        pytest.param(
            {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}},
            id="another kind",
        ),
    ],
)
def test_a_correct_job_is_accepted_before_and_after_our_defaults(job: Json) -> None:
    assert complaints(AdmissionRequest(job, team=TEAM)) == []
    prepared = apply_defaults(AdmissionRequest(job, team=TEAM))
    assert complaints(AdmissionRequest(prepared, team=TEAM)) == []


@pytest.mark.parametrize(
    ("owner", "accepted"),
    [
        pytest.param(("apps/v1", "ReplicaSet"), True, id="of a Deployment"),
        pytest.param(("apps/v1", "StatefulSet"), True, id="of a StatefulSet"),
        pytest.param(("serving.example/v1", "Model"), False, id="of an unknown kind"),
        pytest.param(None, False, id="of nobody"),
    ],
)
def test_a_server_replaces_pods_of_a_class_that_was_removed(
    owner: tuple[str, str] | None, *, accepted: bool
) -> None:
    """Each lost pod made it smaller."""
    pod = job_of_kind("Pod", pod_spec({}), **{PRIORITY: "old"})
    pod["metadata"] |= {"name": "p", "namespace": "vision"}
    owned = with_owner(pod, *owner) if owner else pod
    user = "system:serviceaccount:kube-system:replicaset-controller"
    team = replace(TEAM, removed_classes=frozenset({"old"}))
    assert bool(complaints(AdmissionRequest(owned, user=user, team=team))) is not accepted
    assert complaints(AdmissionRequest(owned, user=user, team=TEAM)), "no class that ever was"
    assert complaints(AdmissionRequest(plain_job(labels={PRIORITY: "old"}), team=team))


def test_limits_that_the_admin_has_not_set_are_not_checked() -> None:
    job = plain_job(labels={PRIORITY: "anything"})
    assert complaints(AdmissionRequest(job, team=Team(name="vision"))) == []


def test_a_policy_that_became_stricter_does_not_stop_a_job() -> None:
    old = running_job(elastic_job(labels={PRIORITY: "training", QUEUE: "night"}), 4)
    new = deepcopy(old)
    new["spec"]["suspend"] = False
    stricter = Team(name="vision", classes={"new": 1}, queues=frozenset())
    assert complaints(AdmissionRequest(new, old, "ada", stricter)) == []


# --- whose objects are checked --------------------------------------------------------------------
@pytest.mark.parametrize(
    ("job", "user"),
    [
        pytest.param(
            with_owner(
                elastic_job(labels={PRIORITY: "urgent"}), "jobset.x-k8s.io/v1alpha2", "JobSet"
            ),
            "system:serviceaccount:jobset-system:jobset",
            id="queued with its owner",
        ),
        pytest.param(
            elastic_job(labels={PRIORITY: "urgent"})
            | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "ada",
            id="being deleted",
        ),
        pytest.param(
            elastic_job(labels={PRIORITY: "urgent"}), SCHEDULER_USER, id="the scheduler's resize"
        ),
    ],
)
def test_some_objects_are_not_checked(job: Json, user: str) -> None:
    request = AdmissionRequest(job, user=user)
    assert not is_in_scope(request)
    assert complaints(request) == []


@pytest.mark.parametrize(
    ("user", "was_owned", "refused"),
    [
        pytest.param("ada", False, True, id="a person"),
        pytest.param(
            "system:serviceaccount:vision:default", False, True, id="the team's own service account"
        ),
        pytest.param(
            "system:serviceaccount:ci:deployer", False, True, id="a service account elsewhere"
        ),
        pytest.param("system:kube-controller-manager", False, False, id="a controller"),
        pytest.param("system:serviceaccount:jobset-system:jobset", False, False, id="an operator"),
        pytest.param("ada", True, False, id="a person who updates an owned object"),
    ],
)
def test_only_a_controller_may_name_a_controller(user: str, was_owned: bool, refused: bool) -> None:
    """Kueue would not queue the object, because it expects that the owner is queued. It looks
    through a pod to the job that owns it."""
    owners = [("jobset.x-k8s.io/v1alpha2", "JobSet"), ("v1", "Pod"), ("apps/v1", "ReplicaSet")]
    for owner in owners:
        job = with_owner(plain_job(), *owner)
        old = deepcopy(job) if was_owned else None
        expected = [OWNER_COMPLAINT] if refused else []
        assert complaints(AdmissionRequest(job, old, user, TEAM)) == expected


def test_a_pod_of_the_team_may_make_pods() -> None:
    """As Spark's driver makes its executors, also with a priority."""
    pod = job_of_kind("Pod", pod_spec({}), **{PRIORITY: "sweep"})
    pod["metadata"] |= {"name": "executor", "namespace": "vision"}
    executor = with_owner(pod, "v1", "Pod")
    driver = "system:serviceaccount:vision:spark"
    assert complaints(AdmissionRequest(executor, user=driver, team=TEAM)) == []
    assert complaints(AdmissionRequest(executor, user="ada", team=TEAM)) == [OWNER_COMPLAINT]


def test_an_admin_names_further_controllers() -> None:
    job = with_owner(plain_job(), "jobset.x-k8s.io/v1alpha2", "JobSet")
    team = replace(TEAM, controller_namespaces=frozenset({"ci"}))
    for user, refused in (("ci:deployer", False), ("jobset-system:jobset", True)):
        request = AdmissionRequest(job, user=f"system:serviceaccount:{user}", team=team)
        assert bool(complaints(request)) is refused


@pytest.mark.parametrize("job", [plain_job(), job_of_kind("RayJob", pod_spec({}))])
def test_a_raw_elastic_job_is_refused(job: Json) -> None:
    """Kueue ran its pods on without quota when its scale-up slice was evicted."""
    raw = deepcopy(job)
    raw["metadata"]["annotations"] = {ELASTIC_JOB: "true"}
    [complaint] = complaints(AdmissionRequest(raw, team=TEAM))
    assert complaint == (
        f"metadata.annotations[{ELASTIC_JOB}] is not supported without Cede: remove it, and name "
        f"the sizes of a batch/v1 Job in cede.dev/sizes"
    )
    assert complaints(AdmissionRequest(raw, job, team=TEAM)) == [complaint]
    assert complaints(AdmissionRequest(raw, raw, team=TEAM)) == [], "what was there is not stuck"


@pytest.mark.parametrize("kind", ["RayCluster", "JobSet", "Deployment", "SparkApplication"])
def test_sizes_make_no_other_kind_elastic(kind: str) -> None:
    raw = job_of_kind(kind, pod_spec({}))
    raw["metadata"]["annotations"] = {ELASTIC_JOB: "true", "cede.dev/sizes": "1-4"}
    assert ELASTIC_JOB in "; ".join(complaints(AdmissionRequest(raw, team=TEAM)))


@pytest.mark.parametrize(
    ("suspend", "before", "after", "refused"),
    [
        pytest.param(False, "sweep", "training", True, id="raised while it runs"),
        pytest.param(False, "training", "sweep", False, id="lowered while it runs"),
        pytest.param(True, "sweep", "training", False, id="raised while it waits"),
        pytest.param(None, "sweep", "training", False, id="nobody knows whether it runs"),
    ],
)
def test_a_running_job_keeps_the_class_of_its_admission(
    suspend: bool | None, before: str, after: str, refused: bool
) -> None:
    """Also a JobSet, and a kind whose field is in runPolicy."""
    for spec in ({"suspend": suspend}, {"runPolicy": {"suspend": suspend}}):
        old = plain_job(labels={PRIORITY: before})
        old["spec"].pop("suspend", None)
        if suspend is not None:
            old["spec"] |= spec
        new = deepcopy(old)
        new["metadata"]["labels"][PRIORITY] = after
        texts = complaints(AdmissionRequest(new, old, "mara", TEAM))
        assert [f"'{after}', which is above '{before}'" in text for text in texts] == [
            True
        ] * refused
