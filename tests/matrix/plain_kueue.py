"""Queues and Jobs that Cede has nothing to do with, on a fake node: what Kueue itself does."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from cede.api import names
from cede.api.objects import Json
from deploy.local.cluster import fake_node
from tests.harness.local_cluster import Cluster
from tests.integration.admin import FAKE, condition_of, kubectl_list
from tests.integration.explained import kueue

NAMESPACE = "lever"
NODE = fake_node("lever-1", 0, "lever")
NEVER = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
ANY = {**NEVER, "reclaimWithinCohort": "Any"}
HIGH = "lever-high"
ENDS_LATE = "cede.test/ends-late"
"""A finalizer. A pod that has it ends only after `let_pods_end`, as one that ignores SIGTERM."""
QUOTAS = {"own": 8, "lent": 4, "poor": 0}
"""Queue → its quota of CPU; they borrow from each other without limit."""
TIMEOUT_S = 60


def cluster_queue(name: str, quota: int) -> Json:
    resources = [{"name": "cpu", "nominalQuota": str(quota)}]
    group = {
        "coveredResources": ["cpu"],
        "flavors": [{"name": "lever", "resources": resources}],
    }
    spec = {
        "cohortName": "lever",
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": NEVER,
        "resourceGroups": [group],
    }
    return kueue("ClusterQueue", f"lever-{name}", spec=spec)


SHARED = [
    kueue("ResourceFlavor", "lever", spec={}),
    kueue("WorkloadPriorityClass", HIGH, value=10),
    *(cluster_queue(name, quota) for name, quota in QUOTAS.items()),
    *(
        kueue("LocalQueue", name, NAMESPACE, spec={"clusterQueue": f"lever-{name}"})
        for name in QUOTAS
    ),
]


def job(
    queue: str,
    name: str,
    pods: int,
    *,
    elastic: bool = False,
    priority: str = "",
    finalizers: Iterable[str] = (),
    failures: int = 0,
) -> Json:
    """An Indexed Job of this number of pods, each with one CPU and these finalizers.

    It fails after more than so many failures of pods.
    """
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"type": "kwok"},
        "tolerations": [FAKE],
        "containers": [container],
    }
    metadata: Json = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": {names.QUEUE_NAME: queue}
        | ({names.PRIORITY_CLASS: priority} if priority else {}),
        "annotations": {names.ELASTIC_JOB: "true"} if elastic else {},
    }
    spec = {
        "suspend": True,
        "completionMode": "Indexed",
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": failures,
        "template": {"metadata": {"finalizers": [*finalizers]}, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


class PlainKueue:
    """kubectl on these queues and Jobs."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def submit(self, *jobs: Json) -> None:
        self.cluster.kubectl("create", "-f", "-", stdin=kubectl_list(*jobs))

    def get_job(self, name: str) -> Json:
        job: Json = self.cluster.kubectl_json("get", "job", "-n", NAMESPACE, name)
        return job

    def resize(self, name: str, pods: int) -> None:
        """As the scheduler does it: both numbers in one patch."""
        spec = {"parallelism": pods, "completions": pods}
        self.patch("job", name, {"spec": spec})

    def set_parallelism(self, name: str, pods: int) -> None:
        """The completions stay."""
        self.patch("job", name, {"spec": {"parallelism": pods}})

    def patch(self, kind: str, name: str, body: Json) -> None:
        patch = json.dumps(body)
        self.cluster.kubectl("patch", kind, name, "-n", NAMESPACE, "--type=merge", "-p", patch)

    def set_strategy(self, queue: str, strategy: str) -> None:
        self.patch("clusterqueue", f"lever-{queue}", {"spec": {"queueingStrategy": strategy}})

    def set_preemption(self, queue: str, policies: Json) -> None:
        self.patch("clusterqueue", f"lever-{queue}", {"spec": {"preemption": policies}})

    def wait_until_later_than(self, name: str) -> None:
        """What is submitted now is younger than this Job: the API server's times are seconds."""
        created = datetime.fromisoformat(self.get_job(name)["metadata"]["creationTimestamp"])
        later = created + timedelta(seconds=1)
        self.until(lambda: datetime.now(UTC) >= later, f"a second after {name}")

    def workloads(self, name: str) -> list[Json]:
        """Those of a Job that have not finished."""
        items = self.cluster.kubectl_json("get", "workloads", "-n", NAMESPACE)["items"]
        return [
            item
            for item in items
            if item["metadata"]["ownerReferences"][0]["name"] == name
            and condition_of(item, "Finished").get("status") != "True"
        ]

    def is_admitted(self, name: str) -> bool:
        return any(
            condition_of(workload, "Admitted").get("status") == "True"
            for workload in self.workloads(name)
        )

    def is_refused(self, name: str, why: str = "") -> bool:
        """Kueue has tried to admit it, and says this."""
        refusals = [condition_of(item, names.QUOTA_RESERVED) for item in self.workloads(name)]
        return any(item.get("status") == "False" and why in item["message"] for item in refusals)

    def is_preempted(self, name: str) -> bool:
        conditions = [condition_of(item, "Preempted") for item in self.workloads(name)]
        return any(condition.get("status") == "True" for condition in conditions)

    def wait_for_admission(self, *jobs: str) -> None:
        self.until(lambda: all(map(self.is_admitted, jobs)), f"{', '.join(jobs)} to be admitted")

    def used(self, queue: str) -> int:
        """The CPU that Kueue counts as reserved in the queue."""
        status = self.cluster.kubectl_json("get", "clusterqueue", f"lever-{queue}")["status"]
        [flavor] = status["flavorsReservation"]
        [resource] = flavor["resources"]
        return int(resource["total"])

    def wait_for_use(self, queue: str, cpu: int) -> None:
        self.until(lambda: self.used(queue) == cpu, f"{queue} to use {cpu} CPU")

    def pods(self, name: str) -> dict[int, Json]:
        """By index; those that end too."""
        selector = f"batch.kubernetes.io/job-name={name}"
        pods = self.cluster.kubectl_json("get", "pods", "-n", NAMESPACE, "-l", selector)["items"]
        index = "batch.kubernetes.io/job-completion-index"
        return {int(pod["metadata"]["labels"][index]): pod for pod in pods}

    def running(self, name: str) -> dict[int, str]:
        """Index → uid of each pod that runs and does not end."""
        return {
            index: pod["metadata"]["uid"]
            for index, pod in self.pods(name).items()
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }

    def ending(self, name: str) -> set[int]:
        """The indexes of the pods that end, and still have what they run on."""
        pods = self.pods(name)
        return {index for index in pods if "deletionTimestamp" in pods[index]["metadata"]}

    def let_pods_end(self, name: str) -> None:
        """Those that have `ENDS_LATE`."""
        for pod in self.pods(name).values():
            self.patch("pod", pod["metadata"]["name"], {"metadata": {"finalizers": None}})

    def is_complete(self, name: str) -> bool:
        return condition_of(self.get_job(name), "Complete").get("status") == "True"

    def wait_for_pods(self, name: str, count: int) -> dict[int, str]:
        """Those with the lowest indexes, and no other."""
        self.until(
            lambda: sorted(self.running(name)) == list(range(count)),
            f"the pods 0 to {count - 1} of {name} to run",
        )
        return self.running(name)

    def until(self, probe: Callable[[], bool], what: str) -> None:
        self.cluster.until(probe, what, TIMEOUT_S)

    def delete_job(self, name: str) -> None:
        self.cluster.kubectl("delete", "job", "-n", NAMESPACE, name, "--wait=true")

    def delete_jobs(self) -> None:
        self.cluster.kubectl("delete", "jobs", "--all", "-n", NAMESPACE, "--wait=true")
        self.until(lambda: not any(self.used(queue) for queue in QUOTAS), "nothing to be used")


@contextmanager
def plain_kueue(cluster: Cluster) -> Iterator[PlainKueue]:
    """A namespace, queues and a fake node, which are gone afterwards."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.kubectl("apply", "-f", "-", stdin=kubectl_list(namespace, NODE, *SHARED))
    plain = PlainKueue(cluster)
    try:
        yield plain
    finally:
        plain.delete_jobs()
        shared = kubectl_list(*SHARED, namespace, NODE)
        cluster.kubectl("delete", "-f", "-", "--timeout=60s", stdin=shared)
