"""A job of team vision that waits or runs, and what surrounds it, as the server sends it.

Messages are those of Kueue 0.19.2; the tests that use them name its file.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import ClusterQueue, Job, LocalQueue, Workload
from cede.api.objects import Json, rfc3339
from cede.api.pod_state import ObservedPod
from cede.api.policy import ClusterPolicy
from cede.api.wait_reasons import WaitReason
from cede.api.written_workload import WrittenWorkload
from cede.causes.facts import Cause
from cede.causes.index import Index
from cede.causes.job_causes import job_causes
from cede.causes.snapshot import Snapshot
from tests.builders.reports import LEASES, NOW, allocation

FLAVOR = "a100"
PREFIX = "couldn't assign flavors to pod set main: "


def time(ago_s: float) -> str:
    return rfc3339(NOW - ago_s)


def condition(
    type_: str, status: bool, message: str = "", reason: str = "", ago_s: float = 60
) -> Json:
    return {
        "type": type_,
        "status": str(status),
        "reason": reason or "Pending",
        "message": message,
        "lastTransitionTime": time(ago_s),
    }


def pending(message: str) -> Json:
    """What Kueue's scheduler writes: pkg/scheduler/scheduler.go, requeueAndUpdate."""
    return condition(names.QUOTA_RESERVED, False, message)


def lacks(missing: int, resource: str = names.GPU) -> Json:
    """pkg/scheduler/flavorassigner/flavorassigner.go, fitsResourceQuota."""
    return pending(
        f"{PREFIX}insufficient unused quota for {resource} in flavor {FLAVOR}, {missing} more "
        "needed"
    )


def exceeds(asked: int, maximum: int) -> Json:
    """pkg/scheduler/flavorassigner/flavorassigner.go, fitsResourceQuota."""
    return pending(
        f"{PREFIX}insufficient quota for {names.GPU} in flavor {FLAVOR}, previously considered "
        f"podsets requests (0) + current podset request ({asked}) > maximum capacity ({maximum})"
    )


def workload(
    *conditions: Json,
    job: str = "claim",
    team: str = "vision",
    gpus: int = 4,
    used: int = 0,
    priority: int = 50,
    age_s: float = 300,
    metadata: Json | None = None,
    spec: Json | None = None,
    status: Json | None = None,
) -> Workload:
    """One pod for each GPU; with `used`, so many of them have quota in the team's ClusterQueue."""
    owner = {"kind": "Job", "name": job, "uid": f"job-{job}", "controller": True}
    body_metadata = {
        "name": f"w-{job}",
        "namespace": team,
        "uid": f"uid-{job}",
        "creationTimestamp": time(age_s),
        "ownerReferences": [owner],
    }
    template = {"spec": {"containers": [{"resources": {"limits": {names.GPU: 1}}}]}}
    body_status: Json = {"conditions": list(conditions)}
    if used:
        usage = {"count": used, "flavors": {names.GPU: FLAVOR}, "resourceUsage": {names.GPU: used}}
        body_status["admission"] = {"clusterQueue": team, "podSetAssignments": [usage]}
    body = {
        "metadata": body_metadata | (metadata or {}),
        "spec": {
            "queueName": "default",
            "priority": priority,
            "podSets": [{"count": gpus, "template": template}],
            **(spec or {}),
        },
        "status": body_status | (status or {}),
    }
    return msgspec.convert(body, WrittenWorkload, strict=False)


def running(job: str, team: str, used: int, priority: int = 50, ago_s: float = 3600) -> Workload:
    """A job that was admitted so long ago, and whose pods are ready."""
    conditions = (
        condition(names.QUOTA_RESERVED, True, ago_s=ago_s),
        condition(names.ADMITTED, True, ago_s=ago_s),
        condition(names.PODS_READY, True, ago_s=ago_s),
    )
    return workload(*conditions, job=job, team=team, gpus=used, used=used, priority=priority)


def queue(
    team: str,
    nominal: int,
    used: int,
    *,
    borrowing: int | None = None,
    lending: int | None = None,
    **spec: Any,
) -> ClusterQueue:
    """A ClusterQueue of the cohort `cede`."""
    entry: Json = {"name": names.GPU, "nominalQuota": nominal}
    if borrowing is not None:
        entry["borrowingLimit"] = borrowing
    if lending is not None:
        entry["lendingLimit"] = lending
    reservation = {"name": FLAVOR, "resources": [{"name": names.GPU, "total": used}]}
    active = {"type": "Active", "status": "True", "reason": "Ready"}
    groups = [
        {"coveredResources": [names.GPU], "flavors": [{"name": FLAVOR, "resources": [entry]}]}
    ]
    body = {
        "metadata": {"name": team},
        "spec": {"cohortName": "cede", "resourceGroups": groups, **spec},
        "status": {"flavorsReservation": [reservation], "conditions": [active]},
    }
    return msgspec.convert(body, ClusterQueue, strict=False)


def local_queue(team: str = "vision", **spec: Any) -> LocalQueue:
    metadata = {"name": "default", "namespace": team}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"clusterQueue": team, **spec}}, LocalQueue
    )


def elastic(size: int, desired: int, name: str = "claim", **notes: str) -> Job:
    annotations = {names.SIZES: "1-8", names.DESIRED_SIZE: str(desired), **notes}
    labels = {names.QUEUE_NAME: "default"}
    metadata = {
        "name": name,
        "namespace": "vision",
        "uid": f"job-{name}",
        "annotations": annotations,
        "labels": labels,
    }
    status = {"active": size}
    body = {"metadata": metadata, "spec": {"parallelism": size}, "status": status}
    return msgspec.convert(body, Job)


def policy(mode: str = "Enforce", reason: str = "Leads", **status: Any) -> ClusterPolicy:
    """`reason` is that of condition SchedulerLeads."""
    leads = {"type": "SchedulerLeads", "status": "True", "reason": reason, "message": "because"}
    preemption = {"minRuntimeSeconds": 60, "growCooldownSeconds": 120}
    body = {
        "metadata": {"name": "default"},
        "spec": {"mode": mode, "preemption": preemption},
        "status": {"preemption": "Cede", "leader": "s-1", "conditions": [leads], **status},
    }
    return ClusterPolicy.model_validate(body)


def cession(
    preemptor: str = "claim", target: str = "gpt", phase: str = "Asked", **status: Any
) -> Cession:
    """It takes four GPUs of research for a job of vision, and began a minute ago."""
    body = {
        "metadata": {"name": "c-1", "creationTimestamp": time(60)},
        "spec": {
            "preemptor": {
                "namespace": "vision",
                "workload": f"w-{preemptor}",
                "uid": f"uid-{preemptor}",
                "job": preemptor,
                "queue": "vision",
                "creationTime": time(300),
            },
            "targets": [
                {
                    "namespace": "research",
                    "job": target,
                    "uid": f"job-{target}",
                    "queue": "research",
                    "fromSize": 8,
                    "toSize": 4,
                    "how": "Shrink",
                    "graceSeconds": 90,
                }
            ],
            "reason": "ReclaimOwnQuota",
            "why": "gpt shrinks, which loses least",
        },
        "status": {"phase": phase, **status},
    }
    return Cession.model_validate(body)


def snapshot(*workloads: Workload, **changed: Any) -> Snapshot:
    """Vision owns 4 GPUs and uses none. Research owns 4 and uses all 8. A scheduler leads."""
    facts: dict[str, Any] = {
        "policy": policy(),
        "allocations": (allocation("vision"), allocation("research")),
        "queues": (queue("vision", 4, 0), queue("research", 4, 8)),
        "local_queues": (local_queue(), local_queue("research")),
        "leases": LEASES,
        "workloads": (*workloads, running("gpt", "research", 8)),
        "priority_classes": frozenset({"training", "sweep"}),
    }
    return Snapshot(**facts | changed)


def index(*workloads: Workload, **changed: Any) -> Index:
    return Index(snapshot(*workloads, **changed), NOW)


def pod(phase: str = "Pending", waiting: str = "", **status: Any) -> ObservedPod:
    container: Json = {"name": "train", "image": "registry.example/none"}
    if waiting:
        container["state"] = {"waiting": {"reason": waiting, "message": "not found"}}
    body = {
        "metadata": {"name": "claim-0", "namespace": "vision"},
        "spec": {"schedulingGates": status.pop("gates", [])},
        "status": {"phase": phase, "containerStatuses": [container], **status},
    }
    return msgspec.convert(body, ObservedPod)


def unscheduled(reason: str = "Unschedulable") -> Json:
    """pkg/scheduler/schedule_one.go of Kubernetes."""
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    return condition("PodScheduled", False, message, reason)


def reasons(item: Workload, job: Job | None = None, **changed: Any) -> list[WaitReason]:
    """Those of all causes; the first has to pass first."""
    return [cause.reason for cause in causes(item, job, **changed)]


def causes(item: Workload, job: Job | None = None, **changed: Any) -> Sequence[Cause]:
    return job_causes(item, job, index(item, **changed))
