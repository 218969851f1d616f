"""Who may change what operators make of a job: its pods are counted by the job."""

import pytest

from cede.api import names
from tests.builders.job_kinds import OWNERS, job_of_kind, pod_spec, with_uid
from tests.builders.jobs import elastic_job, plain_job
from tests.harness.admission import Judge
from webhook.admission import SCHEDULER_USER

pytestmark = pytest.mark.slow
JOB_SET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
PARTS = [
    pytest.param(
        *("Job", *JOB_SET),
        "system:serviceaccount:jobset-system:jobset-controller-manager",
        id="JobSet",
    ),
    pytest.param(
        *("RayCluster", "ray.io/v1", "RayJob"),
        "system:serviceaccount:kuberay-operator:kuberay-operator",
        id="RayJob",
    ),
    pytest.param(
        *("StatefulSet", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
        "system:serviceaccount:lws-system:lws-controller-manager",
        id="LeaderWorkerSet",
    ),
]
TRIAL = ("kubeflow.org/v1beta1", "Trial")
"""Of Katib. Kueue does not know it, and queues its Jobs by themselves."""


@pytest.mark.parametrize(("kind", "api_version", "owner", "operator"), PARTS)
def test_nobody_gives_another_owner_to_what_an_operator_made(
    judge: Judge, kind: str, api_version: str, owner: str, operator: str
) -> None:
    """The garbage collector keeps an object while one of its owners is there: its pods would run on
    when the operator's object, which has their quota, is deleted."""
    old = with_uid(job_of_kind(kind, pod_spec()), api_version, owner)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": "9"}
    references = [*old["metadata"]["ownerReferences"], config]
    kept = old | {"metadata": old["metadata"] | {"ownerReferences": references}}
    [message] = judge(kept, old=old)
    assert "ownerReferences" in message
    assert judge(kept, operator, old=old) == []
    assert judge(kept, old=kept) == judge(old, old=kept) == [], "of before, and the cure"


@pytest.mark.parametrize(("kind", "api_version", "owner", "operator"), PARTS)
def test_nobody_adds_pods_to_what_an_operator_made(
    judge: Judge, kind: str, api_version: str, owner: str, operator: str
) -> None:
    """Kueue counts the pods by the owner: a Job of a JobSet with one pod was given 100."""
    old = with_uid(job_of_kind(kind, pod_spec()), api_version, owner)
    size = {"parallelism": 100, "completions": 100} if kind == "Job" else {"replicas": 100}
    raised = old | {"spec": old["spec"] | size}
    [message] = judge(raised, old=old)
    assert "change that one" in message
    assert judge(raised, operator, old=old) == []
    assert judge(old, old=old) == []
    without_owner = old | {"metadata": old["metadata"] | {"ownerReferences": []}}
    assert judge(raised | {"metadata": without_owner["metadata"]}, old=without_owner) == []


@pytest.mark.parametrize(("kind", "api_version", "owner", "operator"), PARTS)
def test_nobody_takes_what_an_operator_made_from_it(
    judge: Judge, kind: str, api_version: str, owner: str, operator: str
) -> None:
    """Kueue and Cede give an object a queue when it is created: a Job of a JobSet has none, and ran
    on without quota when it had lost its owner."""
    old = with_uid(job_of_kind(kind, pod_spec()), api_version, owner)
    [reference] = old["metadata"]["ownerReferences"]
    for references in ([], [reference | {"controller": False}]):
        taken = old | {"metadata": old["metadata"] | {"ownerReferences": references}}
        [message] = judge(taken, old=old)
        assert "ownerReferences" in message
        assert judge(taken, operator, old=old) == []


def test_nobody_gives_more_to_a_suspended_job_of_an_operator(judge: Judge) -> None:
    """Kubernetes 1.36 lets the resources of a suspended Job change, and a JobSet that is resumed
    leaves them as they are: they were counted as before."""
    old = with_uid(plain_job(suspend=True), *JOB_SET)
    larger = with_uid(plain_job(suspend=True), *JOB_SET)
    [container] = larger["spec"]["template"]["spec"]["containers"]
    container["resources"]["limits"]["nvidia.com/gpu"] = "8"
    resumed = with_uid(plain_job(suspend=False), *JOB_SET)
    for messages in judge.updates([(old, larger), (old, resumed)]):
        [message] = messages
        assert "change that one" in message
    labelled = old | {"metadata": old["metadata"] | {"labels": {"mine": "yes"}}}
    assert judge.updates([(old, labelled)]) == [[]]


def test_the_policy_knows_the_owners_that_the_webhook_knows(judge: Judge) -> None:
    """All else Kueue queues by itself, whatever other kinds of the same API group are."""
    small, large = plain_job(size=1), plain_job(size=2)
    unknown = [
        TRIAL,
        ("kubeflow.org/v1", "Notebook"),
        ("ray.io/v1", "RayCronJob"),
        ("sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication"),
    ]
    for owners, is_refused in ((OWNERS, True), (unknown, False)):
        pairs = [(with_uid(small, *owner), with_uid(large, *owner)) for owner in owners]
        assert [bool(messages) for messages in judge.updates(pairs)] == [is_refused] * len(owners)


def test_the_scheduler_grows_an_elastic_job_of_an_operator_that_kueue_does_not_know(
    judge: Judge,
) -> None:
    notes = {names.ELASTIC_JOB: "true"}
    old, grown = (with_uid(elastic_job(size, annotations=notes), *TRIAL) for size in (2, 4))
    assert judge(grown, SCHEDULER_USER, old=old) == []
