"""Kueue's objects as the server sends them, with defaults: the job `gpt` of research."""

from collections.abc import Sequence

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
    owners: list[Json] | None = None,
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
        "ownerReferences": [owner("Job", "gpt", "job-uid")] if owners is None else owners,
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


def owner(kind: str, name: str, uid: str, *, controls: bool = True) -> Json:
    return {"kind": kind, "name": name, "uid": uid} | ({"controller": True} if controls else {})


def owners_of_kind(kind: str) -> list[Json]:
    """The owners of a Workload for an object of this kind, `it`, as Kueue 0.19.2 sets them:
    SetControllerReference for most kinds, SetOwnerReference in pod_controller.go,
    statefulset_reconciler.go and leaderworkerset_reconciler.go. `PodGroup` is three pods."""
    pods = [owner("Pod", f"it-{index}", f"uid-pod-{index}", controls=False) for index in range(3)]
    match kind:
        case "PodGroup":
            return pods
        case "StatefulSet" | "LeaderWorkerSet":
            return [owner(kind, "it", f"uid-{kind}", controls=False), *pods]
        case "Deployment":
            # each of its pods has a Workload
            return [owner("Pod", "it-0", "uid-pod-0")]
        case _:
            return [owner(kind, "it", f"uid-{kind}")]


def job_set_workload(
    count: int = 4,
    *,
    assigned: bool = False,
    finished_pods: int = 0,
    conditions: Sequence[Json] = (),
) -> Workload:
    """Of a JobSet with one pod set; its pods request one accelerator each."""
    metadata = {
        "name": "w",
        "namespace": "research",
        "uid": "uid-w",
        "creationTimestamp": CREATED,
        "ownerReferences": owners_of_kind("JobSet"),
    }
    container = {"name": "main", "resources": {"limits": {GPU: 1}}}
    pod_set = {"name": "main", "count": count, "template": {"spec": {"containers": [container]}}}
    status = {
        "conditions": [*([_reserved()] if assigned else []), *conditions],
        "admission": _admission(count) if assigned else None,
        "reclaimablePods": [{"name": "main", "count": finished_pods}],
    }
    spec = {"queueName": "default", "podSets": [pod_set]}
    body = {"metadata": metadata, "spec": spec, "status": status}
    return msgspec.convert(body, Workload, strict=False)


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
