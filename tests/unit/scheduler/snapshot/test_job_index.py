"""The Jobs by uid, and by what made them; only namespaces that changed are looked at again."""

from dataclasses import replace

import pytest

from cede.api.kueue import Job, JobStatus
from cede.api.objects import Condition, OwnerReference
from scheduler.snapshot.job_index import NO_JOBS, JobIndex, read_completed
from tests.builders.kueue_objects import job
from tests.builders.scheduler import cession

JOB = job()


def named(uid: str, namespace: str = "research", made_by: str = "") -> Job:
    owner = OwnerReference(kind="JobSet", uid=made_by, controller=True)
    metadata = replace(
        JOB.metadata, uid=uid, namespace=namespace, ownerReferences=(owner,) if made_by else ()
    )
    return replace(JOB, metadata=metadata)


def test_a_job_is_in_its_own_namespace_only() -> None:
    index = JobIndex()
    index.update([named("u"), named("v", "vision")])
    assert set(index.in_namespace("research").by_uid) == {"u"}


def test_the_jobs_of_a_job_set_are_its_children() -> None:
    index = JobIndex()
    index.update([named("b", made_by="set"), named("a", made_by="set"), named("c")])
    assert index.in_namespace("research").children == {"set": ["a", "b"]}


def test_a_namespace_stays_the_same_object_until_one_of_its_jobs_changes() -> None:
    index = JobIndex()
    stays = named("u")
    index.update([stays])
    before = index.in_namespace("research")
    index.update([stays, named("v", "vision")])
    assert index.in_namespace("research") is before
    index.update([stays, named("w")])
    assert set(index.in_namespace("research").by_uid) == {"u", "w"}


def test_a_namespace_without_jobs_is_forgotten() -> None:
    index = JobIndex()
    index.update([named("u")])
    index.in_namespace("research")
    index.update([])
    assert index.in_namespace("research") is NO_JOBS
    assert not index._jobs


@pytest.mark.parametrize(
    ("phase", "uid", "condition", "completed"),
    [
        pytest.param("Asked", "job-uid-gpt", "Complete", {"job-uid-gpt": 8}, id="complete"),
        pytest.param("Asked", "job-uid-gpt", "Failed", {}, id="failed"),
        pytest.param("Asked", "job-uid-gpt", "Suspended", {}, id="has not ended"),
        pytest.param("Asked", "another", "Complete", {}, id="deleted, and its name is used again"),
        pytest.param("Completed", "job-uid-gpt", "Complete", {}, id="nothing is taken any more"),
    ],
)
def test_which_targets_have_completed_and_with_which_parallelism(
    phase: str, uid: str, condition: str, completed: dict[str, int]
) -> None:
    index = JobIndex()
    conditions = (Condition(type=condition, status="True"),)
    index.update([replace(named(uid), status=JobStatus(conditions))])
    assert read_completed([cession(phase)], index) == completed
