"""Kueue's objects as the server sends them, with defaults: the job `gpt` of research."""

import msgspec

from cede.api import names
from cede.api.kueue import ClusterQueue, Job, LocalQueue, Workload
from cede.api.objects import Json
from tests.builders.scheduler import FLAVOR, GPU

MANAGED = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
CREATED = "2026-01-01T00:00:00Z"


def workload(
    name: str,
    count: int,
    *,
    assigned: int = 0,
    finished: bool = False,
    replaces: str = "",
    active: bool = True,
) -> Workload:
    """`count` pods of the job; with `assigned` pods it has quota."""
    status: Json = {"conditions": []}
    if assigned:
        status = {"conditions": [_reserved()], "admission": _admission(assigned)}
    if finished:
        status["conditions"].append({"type": "Finished", "status": "True"})
    notes = {names.SLICE_REPLACEMENT_FOR: f"research/{replaces}"} if replaces else {}
    metadata = {
        "name": name,
        "namespace": "research",
        "uid": f"uid-{name}",
        "creationTimestamp": CREATED,
        "annotations": notes,
        "ownerReferences": [{"kind": "Job", "name": "gpt", "uid": "job-uid"}],
    }
    container = {"name": "main", "resources": {"limits": {GPU: 1}}}
    template = {"spec": {"containers": [container]}}
    spec = {
        "queueName": "default",
        "active": active,
        "podSets": [{"count": count, "template": template}],
    }
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": status}, Workload, strict=False
    )


def _reserved() -> Json:
    return {"type": "QuotaReserved", "status": "True", "lastTransitionTime": CREATED}


def _admission(count: int) -> Json:
    usage = {
        "name": "main",
        "count": count,
        "flavors": {GPU: FLAVOR},
        "resourceUsage": {GPU: str(count)},
    }
    return {"clusterQueue": "research", "podSetAssignments": [usage]}


def job(parallelism: int = 8, annotations: dict[str, str] | None = None) -> Job:
    """Elastic, with two to eight pods."""
    notes = {names.ELASTIC_JOB: "true", names.SIZES: "2-8", names.DESIRED_SIZE: "8"}
    metadata = {
        "name": "gpt",
        "namespace": "research",
        "uid": "job-uid",
        "resourceVersion": "3",
        "annotations": notes | (annotations or {}),
    }
    spec = {"parallelism": parallelism, "completions": parallelism}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Job)


def cluster_queue(
    name: str, cohort: str = "cede", labels: dict[str, str] = MANAGED
) -> ClusterQueue:
    """It owns four accelerators."""
    flavor = {"name": FLAVOR, "resources": [{"name": GPU, "nominalQuota": 4}]}
    spec = {
        "cohortName": cohort,
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": [GPU], "flavors": [flavor]}],
    }
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    return msgspec.convert(body, ClusterQueue)


def local_queue() -> LocalQueue:
    """In the namespace of research."""
    metadata = {"name": "default", "namespace": "research"}
    return msgspec.convert({"metadata": metadata, "spec": {"clusterQueue": "research"}}, LocalQueue)
