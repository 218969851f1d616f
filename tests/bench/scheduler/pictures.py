"""A cluster of any size as the API server sends it: the objects that the scheduler caches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from cede.api import names
from cede.api.objects import Json, rfc3339
from elastic_runtime.contract import State, Status

Scenario = Literal["full", "claim", "growth"]
SCENARIOS: tuple[Scenario, ...] = ("full", "claim", "growth")
"""full: everything is in use, and nobody who waits may take anything.
claim: `team-0` runs nothing, `team-2` has borrowed its quota, and a job of `team-0` waits.
growth: the quota of `team-0` is idle, elastic jobs want more, and nothing that waits fits."""
NOW = 1_800_000_000.0
TYPES = ("a100", "h100")
GPUS_PER_NODE = 8
PODS_PER_NODE = 50
JOB_SIZES = (1, 2, 5)
"""In turn; three jobs use the eight accelerators of a node."""
ELASTIC_EVERY = 15
CONTAINER = {
    "name": "main",
    "image": "registry.example/training:1",
    "resources": {"requests": {names.GPU: "1", "cpu": "8", "memory": "64Gi"}},
}
SIDECAR = {
    "name": "agent",
    "image": "registry.example/agent:1",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
}


@dataclass(frozen=True)
class Size:
    """Three of ten Workloads are admitted and use all accelerators; there are 50 pods a node."""

    workloads: int
    teams: int

    @property
    def nodes(self) -> int:
        return self.workloads // 10

    @property
    def admitted_per_team(self) -> int:
        return 3 * self.nodes // self.teams

    @property
    def pending_per_team(self) -> int:
        return self.workloads // self.teams - self.admitted_per_team

    @property
    def nominal(self) -> int:
        """Accelerators that each team owns, all of one type."""
        return GPUS_PER_NODE * self.nodes // self.teams


SIZES = (Size(100, 10), Size(1000, 25), Size(10_000, 100))


def objects(size: Size, scenario: Scenario) -> Iterator[tuple[str, Json]]:
    """Every object, with the field of RawObjects that it belongs to."""
    yield "cohorts", {"metadata": metadata(names.COHORT), "spec": {}}
    for type_ in TYPES:
        labels = {"node.kubernetes.io/instance-type": type_}
        yield "resource_flavors", {"metadata": metadata(type_), "spec": {"nodeLabels": labels}}
    for number in range(size.nodes):
        yield "nodes", node(number)
        for pod in range(PODS_PER_NODE - GPUS_PER_NODE):
            yield "pods", service_pod(number, pod)
    for team in range(size.teams):
        yield from team_objects(team, size, scenario)


def team_objects(team: int, size: Size, scenario: Scenario) -> Iterator[tuple[str, Json]]:
    name = f"team-{team}"
    owned = team % 2
    runs = scenario == "full" or team != 0
    borrows = scenario == "claim" and team == 2
    used = size.nominal * (2 if borrows else int(runs))
    yield "cluster_queues", cluster_queue(name, owned, size.nominal, used)
    yield (
        "local_queues",
        {
            "metadata": metadata("default", name),
            "spec": {"clusterQueue": name},
            "status": {},
        },
    )
    yield "allocations", {"metadata": metadata(name), "spec": {}}
    for number in range(size.admitted_per_team * (2 if borrows else int(runs))):
        yield from job_objects(team, number, TYPES[owned], size)
    for number in range(size.pending_per_team):
        # in `growth` each waiting job asks for more than there is of any type
        pods = 4 if scenario != "growth" else size.nodes * GPUS_PER_NODE
        yield "workloads", workload(name, f"waits-{number}", pods)


def job_objects(team: int, number: int, flavor: str, size: Size) -> Iterator[tuple[str, Json]]:
    """An admitted Job, its Workload and its pods."""
    namespace, name = f"team-{team}", f"runs-{number}"
    pods = JOB_SIZES[number % 3]
    elastic = number % ELASTIC_EVERY == 1
    notes = {}
    if elastic:
        notes = {names.ELASTIC_JOB: "true", names.SIZES: "1-8", names.DESIRED_SIZE: "8"}
    yield "workloads", workload(namespace, name, pods, flavor)
    yield (
        "jobs",
        {
            "metadata": metadata(name, namespace, annotations=notes),
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "completionMode": "Indexed",
                "template": {"spec": {"containers": [CONTAINER, SIDECAR]}},
            },
            "status": {"active": pods, "ready": pods, "startTime": rfc3339(NOW - 7200)},
        },
    )
    for index in range(pods):
        place = (team * size.nominal + number * 3 + index) % (size.nodes * GPUS_PER_NODE)
        yield "pods", job_pod(namespace, name, index, place)


def elastic_uids(size: Size, scenario: Scenario) -> Iterator[tuple[str, int]]:
    """(uid, pods) of the elastic Jobs."""
    for team in range(size.teams):
        if scenario != "full" and team == 0:
            continue
        for number in range(1, size.admitted_per_team, ELASTIC_EVERY):
            yield uid("Job", f"team-{team}", f"runs-{number}"), JOB_SIZES[number % 3]


def statuses(size: Size, scenario: Scenario) -> dict[str, Status]:
    """By Job uid: every elastic job trains."""
    return {
        job: Status(
            state=State.TRAINING,
            size=pods,
            wanted=pods,
            step=1000,
            durableStep=990,
            stepSeconds=1.0,
        )
        for job, pods in elastic_uids(size, scenario)
    }


# --- single objects -------------------------------------------------------------------------------
def uid(kind: str, namespace: str, name: str) -> str:
    return f"{kind.lower()}-{namespace}-{name}"


def metadata(name: str, namespace: str = "", kind: str = "", **more: Any) -> Json:
    created = rfc3339(NOW - 10_000)
    labels = {names.MANAGED_BY: names.MANAGED_BY_CEDE}
    common: Json = {
        "name": name,
        "namespace": namespace,
        "uid": uid(kind or "Job", namespace, name),
        "resourceVersion": "1000",
        "generation": 1,
        "creationTimestamp": created,
        "labels": labels,
    }
    return common | more


def is_true(*types: str) -> list[Json]:
    since = rfc3339(NOW - 7200)
    return [
        {
            "type": type_,
            "status": "True",
            "reason": type_,
            "message": "",
            "lastTransitionTime": since,
        }
        for type_ in types
    ]


def node(number: int) -> Json:
    labels = {
        "node.kubernetes.io/instance-type": TYPES[number % 2],
        "kubernetes.io/hostname": f"node-{number}",
        "kubernetes.io/arch": "amd64",
    }
    allocatable = {names.GPU: str(GPUS_PER_NODE), "cpu": "192", "memory": "2Ti", "pods": "110"}
    return {
        "metadata": metadata(f"node-{number}", labels=labels),
        "spec": {},
        "status": {"allocatable": allocatable, "conditions": is_true("Ready")},
    }


def cluster_queue(name: str, owned: int, nominal: int, used: int) -> Json:
    flavors = []
    for type_ in (TYPES[owned], TYPES[1 - owned]):
        share = nominal if type_ == TYPES[owned] else 0
        quotas = {names.GPU: share, "cpu": 24 * share, "memory": f"{256 * share}Gi"}
        resources = [{"name": key, "nominalQuota": str(value)} for key, value in quotas.items()]
        flavors.append({"name": type_, "resources": resources})
    group = {"coveredResources": [names.GPU, "cpu", "memory"], "flavors": flavors}
    usage = [
        {"name": names.GPU, "total": str(used)},
        {"name": "cpu", "total": f"{used * 8100}m"},
        {"name": "memory", "total": f"{used * (64 * 1024 + 64)}Mi"},
    ]
    return {
        "metadata": metadata(name),
        "spec": {
            "cohortName": names.COHORT,
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
        },
        "status": {"flavorsReservation": [{"name": TYPES[owned], "resources": usage}]},
    }


def workload(namespace: str, job: str, pods: int, flavor: str = "") -> Json:
    """With quota if it has a flavor."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job,
        "uid": uid("Job", namespace, job),
        "controller": True,
    }
    labels = {names.JOB_UID: uid("Job", namespace, job)}
    pod_set = {
        "name": "main",
        "count": pods,
        "template": {"spec": {"containers": [CONTAINER, SIDECAR]}},
    }
    status: Json = {"conditions": []}
    if flavor:
        assigned = {
            "name": "main",
            "count": pods,
            "flavors": {names.GPU: flavor, "cpu": flavor, "memory": flavor},
            "resourceUsage": {
                names.GPU: str(pods),
                "cpu": f"{pods * 8100}m",
                "memory": f"{pods * (64 * 1024 + 64)}Mi",
            },
        }
        status = {
            "conditions": is_true("QuotaReserved", "Admitted", "PodsReady"),
            "admission": {"clusterQueue": namespace, "podSetAssignments": [assigned]},
        }
    name = f"job-{job}"
    return {
        "metadata": metadata(name, namespace, "Workload", labels=labels, ownerReferences=[owner]),
        "spec": {
            "queueName": "default",
            "active": True,
            "priority": 50,
            "priorityClassRef": {"name": "training", "kind": "WorkloadPriorityClass"},
            "podSets": [pod_set],
        },
        "status": status,
    }


def job_pod(namespace: str, job: str, index: int, place: int) -> Json:
    labels = {
        names.POD_JOB_NAME: job,
        names.POD_INDEX: str(index),
        names.MANAGED_BY: "kueue",
        "kueue.x-k8s.io/podset": "main",
        "app": job,
    }
    name = f"{job}-{index}"
    owner = {"kind": "Job", "uid": uid("Job", namespace, job), "controller": True}
    return {
        "metadata": metadata(name, namespace, "Pod", labels=labels, ownerReferences=[owner]),
        "spec": {"containers": [CONTAINER, SIDECAR], "nodeName": f"node-{place // GPUS_PER_NODE}"},
        "status": pod_status(f"127.{place >> 16}.{place >> 8 & 255}.{place & 255}"),
    }


def service_pod(node: int, number: int) -> Json:
    """A pod of no team, with an owner that Kueue does not know."""
    name = f"service-{node}-{number}"
    labels = {"app": f"service-{number}", "pod-template-hash": "74c8b9d5f6"}
    return {
        "metadata": metadata(name, "services", "Pod", labels=labels),
        "spec": {"containers": [SIDECAR, SIDECAR | {"name": "logs"}], "nodeName": f"node-{node}"},
        "status": pod_status(f"127.128.{node >> 8}.{node & 255}"),
    }


def pod_status(address: str) -> Json:
    conditions = is_true("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    return {"phase": "Running", "podIP": address, "conditions": conditions}
