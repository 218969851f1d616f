"""A Job as its user writes it → what the cluster would have, or why it cannot be asked for."""

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.pictures import NOW, ClusterOf, JobOf, manifest
from whatif.submission import BadQuestion, Submission, submission, with_priority

SPEC = manifest("gpt", 1)["spec"]
CLUSTER = ClusterOf([JobOf("vision", "taken", 1)])


def submitted(job: Json, namespace: str = "vision") -> Submission:
    picture = CLUSTER.picture()
    return submission(job, namespace, picture.objects, picture.policy, NOW)


def test_the_workload_is_as_kueue_would_make_it() -> None:
    asked = submitted(manifest("gpt", 4))
    workload = asked.workload
    (pod_set,) = workload.spec.podSets
    assert asked.complaints == ()
    assert (pod_set.count, workload.spec.queueName) == (4, names.LOCAL_QUEUE)
    assert workload.spec.priorityClassRef
    assert workload.spec.priorityClassRef.name == "training", "the policy's default"
    assert asked.job.spec.suspend


def test_an_elastic_job_waits_at_its_smallest_size() -> None:
    asked = submitted(manifest("gpt", 8, sizes="2-8"))
    assert asked.workload.spec.podSets[0].count == 2
    assert asked.job.metadata.annotations[names.DESIRED_SIZE] == "8"


def test_the_priority_is_that_of_the_class() -> None:
    workload = submitted(manifest("gpt", 1, priority="inference")).workload
    assert with_priority(workload, {"inference": 100}).spec.priority == 100
    assert with_priority(workload, {}).spec.priority == 0


def test_pods_beyond_the_completions_get_no_quota() -> None:
    job = manifest("gpt", 8)
    job["spec"] |= {"completions": 3, "completionMode": "NonIndexed"}
    assert submitted(job).workload.spec.podSets[0].count == 3


def test_all_complaints_of_the_webhook_are_told_at_once() -> None:
    job = manifest("gpt", 9, sizes="2-8", priority="nothing")
    assert len(submitted(job).complaints) >= 2


@pytest.mark.parametrize(
    ("job", "namespace", "expected"),
    [
        pytest.param(
            manifest("gpt", 1),
            "nowhere",
            r"namespace nowhere is of no ComputeAllocation: name one of a team "
            r"\(research, vision\)",
            id="unknown namespace",
        ),
        pytest.param(manifest("gpt", 1), "", "names no namespace", id="no namespace"),
        pytest.param(
            manifest("gpt", 1, namespace="research"), "vision", "leave one out", id="two namespaces"
        ),
        pytest.param(
            manifest("taken", 1), "vision", "there is a Job taken in namespace vision", id="taken"
        ),
        pytest.param(
            manifest("gpt", 1) | {"kind": "CronJob"},
            "vision",
            "the file has a CronJob of batch/v1: it must have a Job",
            id="another kind",
        ),
        pytest.param({}, "vision", "text without kind of no apiVersion", id="no object"),
        pytest.param(
            manifest("gpt", 1) | {"metadata": {}}, "vision", "no metadata.name", id="no name"
        ),
        pytest.param(
            manifest("gpt", 1) | {"spec": SPEC | {"parallelism": [1]}},
            "vision",
            "the Job cannot be read",
            id="a field of another type",
        ),
        pytest.param(
            manifest("gpt", 1) | {"spec": None}, "vision", "has no spec.template", id="no spec"
        ),
    ],
)
def test_a_job_that_cannot_be_asked_for_is_told_with_the_cure(
    job: Json, namespace: str, expected: str
) -> None:
    with pytest.raises(BadQuestion, match=expected):
        submitted(job, namespace)


def test_a_namespace_whose_queue_is_not_there_yet_is_told() -> None:
    picture = CLUSTER.picture()
    objects = picture.objects.__class__(allocations=picture.objects.allocations)
    with pytest.raises(BadQuestion, match="has no LocalQueue default"):
        submission(manifest("gpt", 1), "vision", objects, picture.policy, NOW)
