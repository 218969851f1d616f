"""Which deletions the policies of deploy/ refuse: those that leave pods without a quota."""

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, pod_spec
from tests.builders.jobs import plain_job
from tests.harness.admission import Judge

pytestmark = pytest.mark.slow
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
ORPHAN = {"metadata": {"name": "it", "namespace": "vision", "finalizers": ["orphan"]}}
JOB_SET = job_of_kind("JobSet", pod_spec())


def with_finalizer(job: Json, finalizer: str) -> Json:
    return job | {"metadata": job["metadata"] | {"finalizers": [finalizer]}}


def with_condition(job: Json, type_: str, status: str = "True") -> Json:
    return job | {"status": {"conditions": [{"type": type_, "status": status}]}}


def suspended(generation: int) -> Json:
    job = plain_job()
    spec, metadata = job["spec"] | {"suspend": True}, job["metadata"] | {"generation": generation}
    return job | {"spec": spec, "metadata": metadata}


CASCADING = with_finalizer(plain_job(), "foregroundDeletion")
MATCHED = sorted(jobs_of_every_kind(pod_spec()).keys() - {"Pod"})


@pytest.mark.parametrize(
    ("job", "options", "is_refused"),
    [
        pytest.param(plain_job(), {"propagationPolicy": "Background"}, False, id="kubectl"),
        pytest.param(plain_job(), {"propagationPolicy": "Foreground"}, False, id="foreground"),
        pytest.param(plain_job(), {"propagationPolicy": "Orphan"}, True, id="orphan"),
        pytest.param(plain_job(), {"orphanDependents": True}, True, id="orphan, as of old"),
        pytest.param(plain_job(), {"orphanDependents": False}, False, id="do not, as of old"),
        pytest.param(plain_job(), {}, True, id="by default, the pods of a Job stay"),
        pytest.param(JOB_SET, {}, False, id="and those of a JobSet do not"),
        pytest.param(JOB_SET, {"propagationPolicy": "Orphan"}, True, id="orphan a JobSet"),
        pytest.param(JOB_SET | ORPHAN, {}, True, id="orphan by finalizer"),
        pytest.param(
            with_condition(JOB_SET, "Complete"),
            *({"propagationPolicy": "Orphan"}, True),
            id="orphan one that has ended: only Jobs say that no pod is left",
        ),
        pytest.param(CASCADING, {}, False, id="a Job whose finalizer deletes its pods"),
        pytest.param(CASCADING, {"propagationPolicy": "Orphan"}, True, id="orphan all the same"),
    ],
)
def test_nobody_deletes_a_job_and_leaves_its_pods(
    judge: Judge, job: Json, options: Json, is_refused: bool
) -> None:
    """Kueue frees the quota of a job that is gone, and the pods ran on."""
    assert bool(judge(job, deletion=options)) == is_refused
    assert judge(job, JOB_CONTROLLER, deletion=options) == []


@pytest.mark.parametrize("kind", MATCHED)
def test_nobody_leaves_the_pods_of_any_kind_of_job(judge: Judge, kind: str) -> None:
    job = job_of_kind(kind, pod_spec())
    assert judge(job, deletion={"propagationPolicy": "Orphan"})
    assert judge(job, deletion={"propagationPolicy": "Foreground"}) == []


@pytest.mark.parametrize("options", [{}, {"propagationPolicy": "Orphan"}], ids=["none", "orphan"])
@pytest.mark.parametrize(
    ("job", "is_refused"),
    [
        pytest.param(with_condition(plain_job(), "Complete"), False, id="complete"),
        pytest.param(with_condition(plain_job(), "Failed"), False, id="failed"),
        pytest.param(with_condition(plain_job(), "Failed", "False"), True, id="not failed"),
        pytest.param(with_condition(plain_job(), "FailureTarget"), True, id="its pods still end"),
        pytest.param(suspended(1), False, id="never resumed"),
        pytest.param(suspended(3), True, id="suspended again: its pods may not be counted yet"),
    ],
)
def test_a_job_without_pods_is_deleted_by_any_client(
    judge: Judge, job: Json, options: Json, is_refused: bool
) -> None:
    """Many clients name no propagationPolicy: docs/admin-guide.md."""
    assert bool(judge(job, deletion=options)) == is_refused


# --- pods -----------------------------------------------------------------------------------------
TEN_YEARS_S = 315_360_000


@pytest.mark.parametrize(
    ("own_s", "grace_s", "is_refused"),
    [
        pytest.param(30, None, False, id="none"),
        pytest.param(30, 0, False, id="at once, as the kubelet does"),
        pytest.param(30, 600, False, id="as long as policies allow by default"),
        pytest.param(30, 601, True, id="longer"),
        pytest.param(30, TEN_YEARS_S, True, id="years"),
        pytest.param(None, TEN_YEARS_S, True, id="years, and the pod says nothing"),
        pytest.param(3600, 3600, False, id="that of the pod"),
        pytest.param(3600, 3601, True, id="above that of the pod"),
    ],
)
def test_nobody_lets_a_pod_run_on_by_deleting_it(
    judge: Judge, own_s: int | None, grace_s: int | None, is_refused: bool
) -> None:
    """The Job made another one in its place, and ended this one no more: the API server only
    shortens the grace period of a pod that is being deleted."""
    pod = job_of_kind("Pod", pod_spec())
    if own_s is not None:
        pod["spec"]["terminationGracePeriodSeconds"] = own_s
    options: Json = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
    assert bool(judge(pod, deletion=options)) is is_refused
    assert judge(pod, JOB_CONTROLLER, deletion=options) == []
    assert judge(pod, deletion=options, labels={}) == [], "in a namespace of no team"
    assert judge(JOB_SET, deletion=options) == [], "of no other kind is it read"


def test_a_pod_is_deleted_whatever_becomes_of_what_it_owns(judge: Judge) -> None:
    pod = job_of_kind("Pod", pod_spec())
    assert judge(pod, deletion={"propagationPolicy": "Orphan"}) == []


# --- finalizers -----------------------------------------------------------------------------------
@pytest.mark.parametrize("finalizer", ["orphan", "example.com/keep"])
@pytest.mark.parametrize("kind", MATCHED)
def test_nobody_makes_the_garbage_collector_leave_pods(
    judge: Judge, kind: str, finalizer: str
) -> None:
    """Kueue frees the quota of a job once it has a deletionTimestamp, and the garbage collector
    leaves what an object owns that is still there."""
    plain = job_of_kind(kind, pod_spec())
    kept = with_finalizer(plain, finalizer)
    for old in (None, plain, with_finalizer(plain, "foregroundDeletion")):
        [message] = judge(kept, old=old)
        assert "outside of every quota" in message
        assert "security.controllerNamespaces" in message
    assert judge(kept, old=kept) == judge(plain, old=kept) == []


def test_a_finalizer_beside_that_of_before_is_refused(judge: Judge) -> None:
    old = with_finalizer(JOB_SET, "example.com/keep")
    more = ["example.com/keep", "foregroundDeletion", "example.com/too"]
    metadata = old["metadata"] | {"finalizers": more}
    assert judge(old | {"metadata": metadata | {"finalizers": more[:2]}}, old=old) == []
    assert judge(old | {"metadata": metadata}, old=old)


@pytest.mark.parametrize(
    ("kind", "user", "finalizer"),
    [
        pytest.param(
            "RayCluster",
            "system:serviceaccount:kuberay-operator:kuberay-operator",
            "ray.io/gcs-ft-redis-cleanup-finalizer",
            id="of an operator",
        ),
        pytest.param(
            "Job",
            "system:serviceaccount:argocd:argocd-application-controller",
            "argocd.argoproj.io/hook-finalizer",
            id="of one that the admin trusts",
        ),
    ],
)
def test_controllers_set_finalizers(judge: Judge, kind: str, user: str, finalizer: str) -> None:
    plain = job_of_kind(kind, pod_spec())
    trusted = {names.CONTROLLERS: "argocd"}
    for old in (None, plain):
        assert judge(with_finalizer(plain, finalizer), user, old=old, annotations=trusted) == []
        assert judge(with_finalizer(plain, finalizer), old=old, annotations=trusted)


def wrapper(finalizer: str = "") -> Json:
    made = job_of_kind("AppWrapper", pod_spec())
    metadata: Json = made["spec"]["components"][0]["template"].setdefault("metadata", {})
    if finalizer:
        metadata["finalizers"] = [finalizer]
    return made


def test_an_app_wrapper_has_no_finalizers_for_what_it_makes(judge: Judge) -> None:
    """Its controller creates the objects in it with all their metadata."""
    for old in (None, wrapper(), wrapper("example.com/other")):
        [message] = judge(wrapper("example.com/keep"), old=old)
        assert "outside of every quota" in message
    kept = wrapper("example.com/keep")
    changed = kept | {"spec": kept["spec"] | {"suspend": True}}
    assert judge(changed, old=kept) == judge(wrapper(), old=kept) == []
    assert judge(wrapper("foregroundDeletion")) == judge(wrapper()) == []
