"""A cluster that teams share, as an API server has it: for the page of `cede dashboard`."""

import time
from typing import Any

from cede.api import job_progress, names
from cede.api.job_progress import JobProgress, Progress
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    POLICIES,
    PRIORITY_CLASSES,
    WORKLOADS,
    Json,
    rfc3339,
)
from tests.builders.take_backs import cession
from tests.fakes.access import EVERYWHERE, reviews
from tests.fakes.api_server import ApiServer

GPU = names.GPU
SINCE = rfc3339(time.time() - 7200)
FAR_FUTURE = "2090-01-01T00:00:00.000000Z"


def policy(**healthy: int) -> Json:
    """Instance types by name, each with so many healthy GPUs on nodes of 8."""
    types = [
        {
            "name": type_,
            "nodes": gpus // 8,
            "healthyNodes": gpus // 8,
            "healthy": {GPU: str(gpus), "cpu": "64"},
        }
        for type_, gpus in healthy.items()
    ]
    status = {"preemption": "Cede", "leader": "scheduler-1", "instanceTypes": types}
    return {"metadata": {"name": "default"}, "spec": {"mode": "Enforce"}, "status": status}


def lease(name: str) -> Json:
    spec = {"holderIdentity": "it", "renewTime": FAR_FUTURE, "leaseDurationSeconds": 15}
    return {"metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE}, "spec": spec}


def quota(type_: str, owns: int, uses: int, lends: int = 0, borrows: int = 0) -> Json:
    amounts = {"nominal": owns, "healthy": owns, "used": uses, "lent": lends, "borrowed": borrows}
    return {"instanceType": type_} | {
        name: {GPU: str(amount), "cpu": "8"} for name, amount in amounts.items()
    }


def put_queues(server: ApiServer, team: str, type_: str, owns: int, uses: int) -> None:
    """The ClusterQueue and the LocalQueue of a team, with GPUs of one type."""
    flavors = [{"name": type_, "resources": [{"name": GPU, "nominalQuota": str(owns)}]}]
    usage = [{"name": type_, "resources": [{"name": GPU, "total": str(uses)}]}]
    active = {"type": "Active", "status": "True", "reason": "Ready", "message": "fine"}
    spec = {
        "cohortName": "cede",
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
    }
    status = {"flavorsReservation": usage, "conditions": [active]}
    server.put(CLUSTER_QUEUES, {"metadata": {"name": team}, "spec": spec, "status": status})
    local = {"metadata": {"name": "default", "namespace": team}, "spec": {"clusterQueue": team}}
    server.put(LOCAL_QUEUES, local)


def put_cohort(server: ApiServer) -> None:
    server.put(COHORTS, {"metadata": {"name": "cede"}, "spec": {}})
    for name in ("training", "sweep", "inference"):
        server.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 50})


def allocation(team: str, *quotas: Json, waiting: int = 0, problem: str = "") -> Json:
    ready = {
        "type": "Ready",
        "status": str(not problem),
        "reason": "Reason",
        "message": problem or "fine",
    }
    status = {
        "observedGeneration": 1,
        "namespace": team,
        "conditions": [ready],
        "quotas": list(quotas),
        "waiting": waiting,
    }
    return {"metadata": {"name": team, "generation": 1}, "spec": {}, "status": status}


def job(
    namespace: str,
    name: str,
    size: int,
    *,
    desired: int = 0,
    sizes: str = "",
    waits: str = "",
    priority: str = "training",
) -> tuple[Json, Json]:
    """An admitted job and its Workload, or with the message `waits` one that has no quota."""
    uid = f"uid-{namespace}-{name}"
    labels = {names.QUEUE_NAME: "default", names.PRIORITY_CLASS: priority}
    notes = {names.SIZES: sizes, names.DESIRED_SIZE: str(desired or size)} if sizes else {}
    metadata = {"name": name, "namespace": namespace, "uid": uid, "labels": labels}
    body = {"metadata": metadata | {"annotations": notes}, "spec": {"parallelism": size}}
    return body, _workload(namespace, name, uid, size, waits, priority)


def _workload(namespace: str, name: str, uid: str, size: int, waits: str, priority: str) -> Json:
    owner = {"kind": "Job", "name": name, "uid": uid, "controller": True}
    conditions: list[Json] = [
        {"type": names.QUOTA_RESERVED, "status": str(not waits), "message": waits}
    ]
    status: Json = {"conditions": conditions}
    if not waits:
        conditions.append({"type": names.ADMITTED, "status": "True", "lastTransitionTime": SINCE})
        assignment = {"name": "main", "count": size, "flavors": {GPU: "a100-80g"}}
        status["admission"] = {"clusterQueue": namespace, "podSetAssignments": [assignment]}
    container = {"name": "train", "resources": {"limits": {GPU: "1"}}}
    pods = {"name": "main", "count": size, "template": {"spec": {"containers": [container]}}}
    return {
        "metadata": {
            "name": f"job-{name}",
            "namespace": namespace,
            "uid": f"{uid}-workload",
            "ownerReferences": [owner],
            "labels": {},
        },
        "spec": {
            "queueName": "default",
            "active": True,
            "priority": 50,
            "priorityClassRef": {"name": priority, "kind": "WorkloadPriorityClass"},
            "podSets": [pods],
        },
        "status": status,
    }


# --- whole clusters -------------------------------------------------------------------------------
def put_jobs(server: ApiServer, *pairs: tuple[Json, Json]) -> None:
    for body, workload in pairs:
        server.put(JOBS, body)
        server.put(WORKLOADS, workload)


def put_note(server: ApiServer, namespace: str, text: str, **fields: Any) -> None:
    """In place of what the scheduler notes of the namespace's jobs."""
    metadata = {"name": names.PROGRESS, "namespace": namespace}
    server.put(CONFIG_MAPS, {"metadata": metadata, "data": {job_progress.KEY: text}, **fields})


def put_progress(server: ApiServer, namespace: str, job: str, **known: Any) -> None:
    """The only job of the namespace that is noted has answered now."""
    noted = JobProgress(answered=int(time.time()), **known)
    put_note(server, namespace, Progress({f"uid-{namespace}-{job}": noted}).text())


def put_leaders(server: ApiServer) -> None:
    for name in (names.SCHEDULER_LEASE, names.QUOTA_CONTROLLER_LEASE):
        server.put(LEASES, lease(name))


def put_small_cluster(server: ApiServer) -> None:
    """Four teams on two instance types; vision took back four GPUs, and takes two more."""
    server.admission_hook = reviews(EVERYWHERE)
    put_leaders(server)
    put_cohort(server)
    for team, owns, uses in (("vision", 16, 12), ("research", 8, 12), ("speech", 8, 8)):
        put_queues(server, team, "a100-80g", owns, uses)
    put_queues(server, "robotics", "h100-80g", 8, 4)
    server.put(POLICIES, policy(**{"a100-80g": 32, "h100-80g": 16}))
    for body in (
        allocation("vision", quota("a100-80g", 16, 12, lends=4), quota("h100-80g", 4, 4)),
        allocation("research", quota("a100-80g", 8, 12, borrows=4), waiting=1),
        allocation("speech", quota("a100-80g", 8, 8), quota("h100-80g", 4, 6, borrows=2)),
        allocation("robotics", quota("h100-80g", 8, 4, lends=2)),
    ):
        server.put(ALLOCATIONS, body)
    put_jobs(
        server,
        job("vision", "detector", 12, desired=12, sizes="4-16"),
        job("vision", "serve-ranker", 4, priority="inference"),
        job("research", "gpt-7b", 4, desired=8, sizes="2-8"),
        job("research", "ablation-17", 8, desired=8, sizes="1-8", priority="sweep"),
        job(
            "research",
            "ablation-18",
            4,
            waits="couldn't assign flavors to pod set main: "
            "insufficient unused quota for nvidia.com/gpu in flavor a100-80g, 4 more needed",
            priority="sweep",
        ),
        job("speech", "asr-large", 8, desired=8, sizes="4,8"),
        job("speech", "tts", 6, desired=6, sizes="2-8"),
        job("robotics", "policy-net", 4),
    )
    why = (
        "vision/serve-ranker lacks 4 nvidia.com/gpu of a100-80g that its team owns and research "
        "borrows: research/gpt-7b has the lowest priority and ran for the shortest time"
    )
    for body in (
        cession(
            "vision-serve-ranker-x7k2p",
            "vision/serve-ranker",
            ("research/gpt-7b", 8, 4),
            age_s=820,
            why=why,
            message="its pods were ready",
            instead="research/ablation-17",
        ),
        cession(
            "robotics-policy-net-9sd1c",
            "robotics/policy-net",
            ("speech/tts", 8, 6),
            age_s=40,
            phase="Asked",
            stages_s=(2,),
            why="robotics owns what speech borrows",
            message="speech/tts finishes its step",
        ),
        cession(
            "speech-asr-large-m2m4w",
            "speech/asr-large",
            ("research/ablation-17", 8, 6),
            ("research/gpt-7b", 8, 6),
            age_s=93_000,
            stages_s=(1, 9, 10, 11, 30),
            why=why,
            message="its pods were ready",
        ),
        cession(
            "vision-detector-77hqz",
            "vision/detector",
            ("research/ablation-17", 8, 2),
            age_s=97_000,
            phase="Failed",
            stages_s=(1, 4),
            why=why,
            message="Kueue did not admit the preemptor within 60 s",
        ),
    ):
        server.put(CESSIONS, body)


def put_large_cluster(
    server: ApiServer,
    teams: int = 100,
    jobs_each: int = 100,
    waits: str = "insufficient unused quota",
) -> None:
    """Every second job runs, and the others wait with this message of Kueue; a hundred take-backs
    of the last day."""
    server.admission_hook = reviews(EVERYWHERE)
    put_leaders(server)
    put_cohort(server)
    server.put(POLICIES, policy(**{"a100-80g": 8 * teams}))
    for index in range(teams):
        team = f"team-{index:03}"
        server.put(ALLOCATIONS, allocation(team, quota("a100-80g", 8, 8), waiting=jobs_each // 2))
        put_queues(server, team, "a100-80g", 8, 8)
        for number in range(jobs_each):
            message = waits if number % 2 else ""
            pair = job(team, f"job-{number:04}", 4, desired=8, sizes="2-8", waits=message)
            put_jobs(server, pair)
        giving = (f"team-{(index + 1) % teams:03}/job-0000", 8, 4)
        server.put(CESSIONS, cession(f"c-{index}", f"{team}/job-0000", giving, age_s=60 * index))
