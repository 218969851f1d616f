"""How many Workloads a second Kueue admits, with Cede beside it and without, on fake nodes.

Both sides admit the same one-pod Jobs, all created at once, in a queue that has room for all of
them. With Cede it is the queue of a team, and all components run. Without Cede the queue is made
by hand in the same cluster, and the components are scaled to zero.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
    is_true,
)
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.connection import connect
from cede.kube.gather import gather_bounded
from tests.harness.local_cluster import Cluster, deploy_local
from tests.integration.admin import FAKE, TYPE, governed

JOBS_PER_RUN = 300
FAKE_NODES = 4
TEAM = "rate-team"
BARE = "rate-bare"
COMPONENTS = (names.QUOTA_CONTROLLER, names.SCHEDULER, names.WEBHOOK)
GOAL_RATIO = 0.95
TIMEOUT_S = 300.0


def one_pod_job(namespace: str, number: int) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
    pod = {"restartPolicy": "Never", "tolerations": [FAKE], "containers": [container]}
    labels = {names.QUEUE_NAME: names.LOCAL_QUEUE}
    metadata = {"name": f"rate-{number}", "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": {"suspend": True, "template": {"spec": pod}}}


async def run(client: Client, namespace: str) -> float:
    """Admitted Workloads a second, from the first creation to the last admission. The Jobs are
    deleted afterwards."""
    workloads = Cache(client, WORKLOADS, Workload, namespace=namespace)
    watch = asyncio.create_task(workloads.run())
    await workloads.synced.wait()

    def admitted() -> int:
        return sum(is_true(w.status.conditions, names.ADMITTED) for w in workloads.all())

    start = time.monotonic()
    jobs = [one_pod_job(namespace, number) for number in range(JOBS_PER_RUN)]
    await gather_bounded(_create(client, job) for job in jobs)
    await _until(lambda: admitted() >= JOBS_PER_RUN, start)
    rate = JOBS_PER_RUN / (time.monotonic() - start)
    await gather_bounded(client.delete(JOBS, (namespace, job["metadata"]["name"])) for job in jobs)
    await _until(lambda: not workloads.all(), time.monotonic())
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    return rate


async def _create(client: Client, job: Json) -> None:
    await client.create(JOBS, job, namespace=job["metadata"]["namespace"])


async def _until(condition: Callable[[], bool], start: float) -> None:
    while not condition():
        if time.monotonic() - start > TIMEOUT_S:
            raise TimeoutError(f"waited {TIMEOUT_S:.0f} s for {JOBS_PER_RUN} Workloads")
        await asyncio.sleep(0.02)


async def make_bare_queue(client: Client) -> None:
    """A queue like that of the team, of which no component of Cede knows."""
    named = {"metadata": {"name": BARE}}
    await client.apply(NAMESPACES, ("", BARE), named)
    labels = {"node.kubernetes.io/instance-type": TYPE}
    await client.apply(RESOURCE_FLAVORS, ("", BARE), {**named, "spec": {"nodeLabels": labels}})
    resources = [{"name": name, "nominalQuota": "1000"} for name in ("cpu", "pods")]
    group = {
        "coveredResources": ["cpu", "pods"],
        "flavors": [{"name": BARE, "resources": resources}],
    }
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    await client.apply(CLUSTER_QUEUES, ("", BARE), {**named, "spec": spec})
    key = (BARE, names.LOCAL_QUEUE)
    local_queue = {"metadata": {"name": key[1]}, "spec": {"clusterQueue": BARE}}
    await client.apply(LOCAL_QUEUES, key, local_queue)


@contextmanager
def without_components(cluster: Cluster) -> Iterator[None]:
    for component in COMPONENTS:
        _scale(cluster, component, 0)
    try:
        yield
    finally:
        for component in COMPONENTS:
            _scale(cluster, component, 1)


def _scale(cluster: Cluster, component: str, replicas: int) -> None:
    deployment = ("deployment", component, "-n", names.SYSTEM_NAMESPACE)
    cluster.kubectl("scale", *deployment, f"--replicas={replicas}")
    cluster.kubectl("rollout", "status", *deployment, "--timeout=120s")


async def _measure(cluster: Cluster, times: int) -> tuple[list[float], list[float]]:
    beside, alone = list[float](), list[float]()
    async with connect(manager="bench", kubeconfig=str(cluster.kubeconfig)) as client:
        await make_bare_queue(client)
        for _ in range(times):
            beside.append(await run(client, TEAM))
            with without_components(cluster):
                alone.append(await run(client, BARE))
            print(f"with Cede {beside[-1]:.1f}/s, without {alone[-1]:.1f}/s", flush=True)
    return beside, alone


def measure(times: int) -> tuple[list[float], list[float]]:
    """Admissions a second, with Cede and without, in turn. Leaves nothing in the cluster."""
    status = json.loads(deploy_local("status", "-o", "json"))
    cluster = Cluster(Path(status["kubeconfig"]), Path(status["kubectl"]))
    with governed(cluster, FAKE_NODES) as admin:
        admin.apply_team(TEAM, 8 * FAKE_NODES)
        try:
            return asyncio.run(_measure(cluster, times))
        finally:
            admin.delete_teams(TEAM)
            cluster.kubectl("delete", "clusterqueue,resourceflavor", BARE, "--ignore-not-found")
            cluster.kubectl("delete", "namespace", BARE, "--ignore-not-found", "--wait=false")


def ratio(beside: list[float], alone: list[float]) -> float:
    return statistics.median(beside) / statistics.median(alone)
