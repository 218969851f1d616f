"""Who may change what operators make of a job: its pods are counted by the job."""

import pytest

from tests.builders.job_kinds import job_of_kind, pod_spec, with_uid
from tests.harness.admission import Judge

pytestmark = pytest.mark.slow
PARTS = [
    pytest.param(
        *("Job", "jobset.x-k8s.io/v1alpha2", "JobSet"),
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
