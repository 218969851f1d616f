"""A Job as its user writes it → what the cluster would have, or why it cannot be asked for."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings

from cede.api import names
from cede.api.objects import Json
from cede.api.script_job import ScriptJob
from cede.api.script_job import manifest as made_by_command
from tests.builders.pictures import NOW, ClusterOf, JobOf, manifest, policy
from tests.builders.random_jobs import random_jobs
from whatif.questions import ask_submit
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


def test_the_runtime_may_come_from_the_image_of_cede() -> None:
    """Its init container requests no more than the container that trains."""
    cluster = replace(CLUSTER, policy=policy(runtime="Inject"))
    picture = cluster.picture()
    job = manifest("gpt", 8, sizes="2-8")
    asked = submission(job, "vision", picture.objects, picture.policy, NOW)
    assert asked.complaints == ()
    (container,) = asked.workload.spec.podSets[0].template.spec.initContainers
    assert names.GPU not in container.resources.requests


def test_the_priority_is_that_of_the_class() -> None:
    workload = submitted(manifest("gpt", 1, priority="inference")).workload
    assert with_priority(workload, {"inference": 100}).spec.priority == 100
    assert with_priority(workload, {}).spec.priority == 0


def test_pods_beyond_the_completions_get_no_quota() -> None:
    job = manifest("gpt", 8)
    job["spec"] |= {"completions": 3, "completionMode": "NonIndexed"}
    assert submitted(job).workload.spec.podSets[0].count == 3


def test_a_quantity_may_be_a_number() -> None:
    job = manifest("gpt", 1)
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": 0.5}}
    (container,) = submitted(job).workload.spec.podSets[0].template.spec.containers
    assert container.resources.limits == {"cpu": "0.5"}


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
            manifest("gpt", 1, gpus="many"), "vision", "which is no quantity", id="no quantity"
        ),
        pytest.param(manifest("gpt", 10**9), "vision", "at most 100000", id="too many pods"),
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


@given(random_jobs())
@settings(max_examples=300, deadline=None)
def test_whatever_the_file_has_there_is_an_answer_or_one_line(job: Json) -> None:
    """Any field may be anything: no question ends in another exception."""
    metadata = job["metadata"] | {"name": "asked"}
    with suppress(BadQuestion):
        ask_submit(CLUSTER.picture(), job | {"metadata": metadata}, "vision")


def test_the_job_that_cede_submit_prints_can_be_asked_for() -> None:
    request = ScriptJob("vision", "train.py", "registry.example/training", sizes="2-8")
    asked = submitted(made_by_command(request), "")
    assert (asked.complaints, asked.workload.spec.podSets[0].count) == ((), 2)
