"""Which deletions the policies of deploy/ refuse: those that leave pods without a quota."""

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, pod_spec
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


def test_nobody_makes_the_garbage_collector_leave_pods(judge: Judge) -> None:
    [message] = judge(JOB_SET | ORPHAN)
    assert "finalizer orphan" in message
    assert judge(JOB_SET | ORPHAN, old=JOB_SET)
    assert judge(JOB_SET | ORPHAN, old=JOB_SET | ORPHAN) == []
