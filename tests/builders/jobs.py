"""Jobs as users write them and as the cluster stores them, and a team with limits."""

from copy import deepcopy
from typing import Any

from cede.api.names import PRIORITY_CLASS, QUEUE_NAME
from cede.api.objects import Json
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.team import Team

QUEUE = QUEUE_NAME
PRIORITY = PRIORITY_CLASS
TEAM = Team(
    name="vision",
    classes={"inference": 100, "training": 50, "sweep": 10},
    default_class="training",
    max_class="training",
    queues=frozenset({"default", "night"}),
    runtime_image="registry.example/cede:0.1.0",
)


def elastic_job(
    size: int | None = 8,
    sizes: str | None = "2-8",
    *,
    completions: int | None = -1,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    pod: Json | None = None,
    **spec: Any,
) -> Json:
    """An elastic Job as its user writes it, with the API server's own defaults.

    `completions` is `size` unless it is given; None leaves a number out. `pod` and `spec` replace
    fields of the pod's spec and of the Job's.
    """
    counts = {"parallelism": size, "completions": size if completions == -1 else completions}
    container = {
        "name": "train",
        "image": "train",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod_spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
    }
    job_spec = {
        "completionMode": "Indexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "template": {"metadata": {}, "spec": pod_spec | (pod or {})},
    }
    size_annotation = {"cede.dev/sizes": sizes} if sizes is not None else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "gpt",
            "namespace": "vision",
            "labels": labels or {},
            "annotations": size_annotation | (annotations or {}),
        },
        "spec": job_spec | {name: n for name, n in counts.items() if n is not None} | spec,
    }


def plain_job(**more: Any) -> Json:
    """A Job without sizes."""
    return elastic_job(sizes=None, **more)


def running_job(job: Json, size: int) -> Json:
    """The job with our defaults and the Job controller's label, resized to `size`."""
    live = deepcopy(apply_defaults(AdmissionRequest(job, team=TEAM)))
    live["spec"] |= {"parallelism": size, "completions": size}
    live["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = "1234"
    return live


def with_owner(job: Json, api_version: str, kind: str) -> Json:
    """The object with a controller as its owner."""
    owner = {
        "apiVersion": api_version,
        "kind": kind,
        "name": "owner",
        "uid": "1",
        "controller": True,
    }
    return job | {"metadata": job["metadata"] | {"ownerReferences": [owner]}}


def make_review(job: Any, old: Any = None, user: str = "ada") -> Json:
    """The AdmissionReview that an API server sends for the object."""
    request = {
        "uid": "u-1",
        "namespace": "vision",
        "object": job,
        "oldObject": old,
        "userInfo": {"username": user},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
