"""The rule about PriorityClasses of pods, for every kind that Kueue queues."""

from dataclasses import replace

import pytest

from cede.api.objects import Json
from tests.builders.job_kinds import job_of_kind, jobs_of_every_kind, pod_spec
from tests.builders.jobs import TEAM
from webhook.admission import AdmissionRequest
from webhook.rules import complaints

CRITICAL = "system-cluster-critical"
FIELD = {"priorityClassName": CRITICAL}
EVERY_KIND = jobs_of_every_kind(pod_spec(priorityClassName=CRITICAL))
SPARK_PARTS: dict[str, Json] = {
    "spec.driver": {"driver": FIELD},
    "spec.executor": {"executor": FIELD},
    "spec.driver.template.spec": {"driver": {"template": {"spec": FIELD}}},
    "spec.executor.template.spec": {"executor": {"template": {"spec": FIELD}}},
    "spec.batchSchedulerOptions": {"batchSchedulerOptions": FIELD},
}
KUBEFLOW = [
    kind for kind, (job, _) in EVERY_KIND.items() if job["apiVersion"].startswith("kubeflow.org/")
]
POLICY = "spec.runPolicy.schedulingPolicy"
COMPONENT = "spec.components[0].template"
WITHOUT_PODS = {"TrainJob", "SparkApplication"}
"""Kinds without a whole pod template. A TrainJob names no class, which is one of its runtime."""


def spark(path: str) -> Json:
    job = job_of_kind("SparkApplication", pod_spec())
    return job | {"spec": job["spec"] | SPARK_PARTS[path]}


def kubeflow(kind: str) -> Json:
    job = job_of_kind(kind, pod_spec())
    policy = {"schedulingPolicy": {"priorityClass": CRITICAL}}
    return job | {"spec": job["spec"] | {"runPolicy": policy}}


def in_templates(kind: str) -> tuple[Json, list[str]]:
    job, paths = EVERY_KIND[kind]
    return job, [f"{path}.priorityClassName" for path in paths]


def wrapped(job: Json) -> Json:
    wrapper = job_of_kind("AppWrapper", pod_spec())
    return wrapper | {"spec": {"components": [{"template": job}]}}


CASES: list[tuple[str, Json, list[str]]] = [
    *((kind, *in_templates(kind)) for kind in EVERY_KIND if kind not in WITHOUT_PODS),
    *(
        (f"SparkApplication {path}", spark(path), [f"{path}.priorityClassName"])
        for path in SPARK_PARTS
    ),
    (
        "SparkApplication in an AppWrapper",
        wrapped(spark("spec.driver")),
        [f"{COMPONENT}.spec.driver.priorityClassName"],
    ),
    (
        "PyTorchJob in an AppWrapper",
        wrapped(kubeflow("PyTorchJob")),
        [f"{COMPONENT}.{POLICY}.priorityClass"],
    ),
    *((f"{kind} {POLICY}", kubeflow(kind), [f"{POLICY}.priorityClass"]) for kind in KUBEFLOW),
]


@pytest.mark.parametrize(
    ("job", "paths"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_only_the_policys_priority_classes_of_pods_are_accepted(
    job: Json, paths: list[str]
) -> None:
    """By any other, such as one of 1,000,000,000, a job would come before every team's."""
    assert paths
    starts = [f"{path} is '{CRITICAL}', which pods of teams may not use: " for path in paths]
    for classes, cure in (((), "remove it; the label"), (("low",), "use low, or remove it; ")):
        team = replace(TEAM, pod_classes=frozenset(classes))
        texts = complaints(AdmissionRequest(job, team=team))
        assert len(texts) == len(starts)
        assert all(text.startswith(start + cure) for text, start in zip(texts, starts, strict=True))
    team = replace(TEAM, pod_classes=frozenset({CRITICAL}))
    assert complaints(AdmissionRequest(job, team=team)) == []
