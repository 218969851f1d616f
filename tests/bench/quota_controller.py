"""How long 1,000 teams take from nothing, against `kubectl apply` of the same objects, and how soon
one change is in the queue.

`python -m tests.bench.quota_controller` starts an API server of its own; it needs the local
cluster's programs and nothing else.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cede.api import names
from cede.api.objects import ALLOCATIONS, CLUSTER_QUEUES, Json
from cede.kube.client import Client
from cede.kube.connection import connect
from tests.bench import bare
from tests.bench.bare import Bare

TYPES = 5
PROMISED = {"seconds": 60.0, "memory_mb": 250.0, "change_p99_s": 1.0}
"""At most, at 1,000 teams."""
MADE = "clusterqueues,cohorts,resourceflavors,workloadpriorityclasses,namespaces,localqueues,services,secrets,rolebindings"


def policy() -> Json:
    types = [
        {"name": f"type-{n}", "accelerators": 8, "cpu": "190", "memory": "1900Gi"}
        for n in range(TYPES)
    ]
    classes = [{"name": "training", "weight": 50}]
    spec = {"instanceTypes": types, "priorityClasses": classes, "defaultPriorityClass": "training"}
    return {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ClusterPolicy",
        "metadata": {"name": names.POLICY_NAME},
        "spec": spec,
    }


def allocation(number: int, count: int = 1) -> Json:
    quotas = [{"instanceType": f"type-{n}", "count": count} for n in range(TYPES)]
    members = [{"kind": "Group", "name": f"team-{number}"}]
    spec = {"quotas": quotas, "members": members}
    return {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ComputeAllocation",
        "metadata": {"name": f"team-{number}"},
        "spec": spec,
    }


def listed(items: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


@contextmanager
def controller(server: Bare) -> Iterator[subprocess.Popen[bytes]]:
    """The quota_controller as it runs in its pod."""
    words = [
        sys.executable,
        "-m",
        "quota_controller",
        "--kubeconfig",
        str(server.kubeconfig),
        "--port",
        "0",
        "--log-level",
        "WARNING",
    ]
    with (server.folder / "controller.log").open("wb") as log:
        running = subprocess.Popen(words, cwd=bare.TREE, stdout=log, stderr=log)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(30)


def most_memory(of: subprocess.Popen[bytes]) -> float:
    """The most a process ever held, in MB."""
    with open(f"/proc/{of.pid}/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def cpu_s(of: subprocess.Popen[bytes]) -> float:
    """CPU seconds of a process so far: what a busy machine does not change."""
    with open(f"/proc/{of.pid}/stat") as stat:
        user, system = stat.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def all_there(client: Client, teams: int) -> None:
    """Every team has its status: the last thing that is written."""
    while True:
        found, _ = await client.list(ALLOCATIONS, dict)
        if sum(1 for one in found if one.get("status", {}).get("conditions")) >= teams:
            return
        await asyncio.sleep(0.5)


async def from_nothing(teams: int) -> dict[str, float]:
    """Seconds and MB for all teams, then the seconds `kubectl apply --server-side` takes for the
    same objects on a server as empty."""
    with bare.server() as server:
        server.kubectl("create", "namespace", names.SYSTEM_NAMESPACE)
        server.kubectl(
            "apply",
            "--server-side",
            "-f",
            "-",
            stdin=listed([policy(), *(allocation(n) for n in range(teams))]),
        )
        async with connect(manager="bench", kubeconfig=str(server.kubeconfig)) as client:
            began = time.monotonic()
            with controller(server) as running:
                await all_there(client, teams)
                ours = time.monotonic() - began
                used = cpu_s(running)
                changes = await changed(client, teams)
                each = (cpu_s(running) - used) / len(changes)
                memory = most_memory(running)
        made = server.kubectl("get", MADE, "-A", "-l", names.ALLOCATION, "-o", "json")
    objects = [bare_of(one) for one in json.loads(made)["items"]]
    objects.sort(key=lambda one: one["kind"] != "Namespace")
    with bare.server() as server:
        began = time.monotonic()
        server.kubectl("apply", "--server-side", "-f", "-", stdin=listed(objects))
        theirs = time.monotonic() - began
    out = {
        "objects": len(objects),
        "seconds": ours,
        "kubectl_apply_s": theirs,
        "ratio": ours / theirs,
        "cpu_s": used,
        "memory_mb": memory,
    }
    return out | {
        "change_cpu_s": each,
        "change_p50_s": statistics.median(changes),
        "change_p99_s": sorted(changes)[int(len(changes) * 0.99)],
    }


def bare_of(one: Json) -> Json:
    """As a person would write it."""
    kept = {k: v for k, v in one["metadata"].items() if k in ("name", "namespace", "labels")}
    spec = {k: v for k, v in one.get("spec", {}).items() if k not in ("clusterIPs", "finalizers")}
    return (
        {k: v for k, v in one.items() if k not in ("status", "metadata", "spec")}
        | {"metadata": kept}
        | ({"spec": spec} if spec else {})
    )


async def changed(client: Client, teams: int, times: int = 100) -> list[float]:
    """Seconds from the answer to a changed allocation to the queue that says it; the next comes
    when the status has said it too."""
    out = []
    for turn in range(times):
        name = f"team-{turn % teams}"
        count = 2 + turn // teams
        _, version = await client.list(CLUSTER_QUEUES, dict, fields=f"metadata.name={name}")
        made = await client.apply(ALLOCATIONS, ("", name), allocation(turn % teams, count))
        began = time.monotonic()
        async for event in client.watch(
            CLUSTER_QUEUES, dict, version=version, initial=False, fields=f"metadata.name={name}"
        ):
            if event.object and nominal(event.object) == str(8 * count):
                break
        out.append(time.monotonic() - began)
        await observed(client, name, made["metadata"]["generation"])
        await asyncio.sleep(random.uniform(0, 1))  # noqa: S311
    return out


async def observed(client: Client, name: str, generation: int) -> None:
    async for event in client.watch(
        ALLOCATIONS, dict, version="", initial=True, fields=f"metadata.name={name}"
    ):
        if event.object and event.object["status"].get("observedGeneration") == generation:
            return


def nominal(queue: Json) -> str:
    return str(queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.quota_controller", description=__doc__
    )
    parser.add_argument("--teams", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    chosen = parser.parse_args()
    runs = []
    for _ in range(chosen.times):
        runs.append(asyncio.run(from_nothing(chosen.teams)))
        print(json.dumps({name: round(value, 3) for name, value in runs[-1].items()}), flush=True)
    kept = True
    for name in runs[0]:
        values = [run[name] for run in runs]
        median = statistics.median(values)
        promise = f"; promised: at most {PROMISED[name]:g}" if name in PROMISED else ""
        kept = kept and median <= PROMISED.get(name, median)
        print(
            f"{name}: median {median:.3g}, {min(values):.3g} to {max(values):.3g}, "
            f"n={len(values)}{promise}"
        )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
