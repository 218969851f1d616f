"""Measures the quota_controller with 1,000 teams, and `kubectl apply` of the same objects.

One more team asks for more than all nodes have.

`python -m tests.bench.quota_controller` starts an API server of its own. It needs the programs of
the local cluster and nothing else.
"""

import argparse
import asyncio
import json
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
from tests.bench.runtime.process_costs import cpu_s_of

TYPES = 5
NODES_OF_A_TYPE = 4
CHANGES = 100
OVERSIZED = 1_000_000
"""Accelerators of each type that one more team asks for, which no cluster has."""
MAXIMA = {"seconds": 60.0, "memory_mb": 250.0, "change_p99_s": 1.0}
"""The most that the medians may be, at 1,000 teams."""
WRITTEN_KINDS = (
    "clusterqueues,cohorts,resourceflavors,workloadpriorityclasses,namespaces,localqueues,"
    "services,resourcequotas,secrets,rolebindings"
)


# --- the objects ----------------------------------------------------------------------------------
def policy() -> Json:
    types = [
        {"name": f"type-{number}", "accelerators": 8, "cpu": "190", "memory": "1900Gi"}
        for number in range(TYPES)
    ]
    spec = {
        "instanceTypes": types,
        "priorityClasses": [{"name": "training", "weight": 50}],
        "defaultPriorityClass": "training",
    }
    return {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ClusterPolicy",
        "metadata": {"name": names.POLICY_NAME},
        "spec": spec,
    }


def nodes(teams: int) -> list[Json]:
    """A few nodes of each type that hold what the teams own at first, and half as much again."""
    accelerators = 8 * teams * first_count(teams) * 3 // 2 // NODES_OF_A_TYPE + 1
    allocatable = {
        names.GPU: str(accelerators),
        "cpu": str(accelerators * 24),
        "memory": f"{accelerators * 240}Gi",
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"type-{type_}-{number}",
                "labels": {"node.kubernetes.io/instance-type": f"type-{type_}"},
            },
            "status": {"allocatable": allocatable, "conditions": [ready]},
        }
        for type_ in range(TYPES)
        for number in range(NODES_OF_A_TYPE)
    ]


def first_count(teams: int) -> int:
    """So many times 8 accelerators of every type a team owns first; each change lowers one by 8."""
    return 1 + -(-CHANGES // teams)


def allocation(number: int, count: int) -> Json:
    """An allocation that owns `count` times 8 accelerators of every type."""
    return allocation_of(f"team-{number}", 8 * count)


def allocation_of(name: str, accelerators: int) -> Json:
    quotas = [
        {"instanceType": f"type-{type_}", "accelerators": accelerators} for type_ in range(TYPES)
    ]
    return {
        "apiVersion": "cede.dev/v1alpha1",
        "kind": "ComputeAllocation",
        "metadata": {"name": name},
        "spec": {"quotas": quotas, "members": [{"kind": "Group", "name": name}]},
    }


def kubectl_list(items: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def as_manifest(obj: Json) -> Json:
    """The object without what the API server sets."""
    kept_metadata = ("name", "namespace", "labels")
    metadata = {k: v for k, v in obj["metadata"].items() if k in kept_metadata}
    manifest = {k: v for k, v in obj.items() if k not in ("status", "metadata", "spec")}
    manifest["metadata"] = metadata
    defaulted = ("clusterIPs", "finalizers")
    spec = {k: v for k, v in obj.get("spec", {}).items() if k not in defaulted}
    return {**manifest, "spec": spec} if spec else manifest


# --- the process ----------------------------------------------------------------------------------
@contextmanager
def controller(server: Bare) -> Iterator[subprocess.Popen[bytes]]:
    """The quota_controller as it runs in its pod."""
    command = [sys.executable, "-m", "quota_controller"]
    command += ["--kubeconfig", str(server.kubeconfig), "--port", "0", "--log-level", "WARNING"]
    with (server.folder / "controller.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=bare.TREE, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def peak_memory_mb(process: subprocess.Popen[bytes]) -> float:
    """The largest resident set of the process so far."""
    with open(f"/proc/{process.pid}/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


# --- the measurements -----------------------------------------------------------------------------
async def measure(teams: int) -> dict[str, float]:
    """All figures of one run: from an empty API server to all teams, then changes one by one."""
    with bare.server() as server:
        server.kubectl("create", "namespace", names.SYSTEM_NAMESPACE)
        # an apply would leave out the status
        server.kubectl("create", "-f", "-", stdin=kubectl_list(nodes(teams)))
        first = first_count(teams)
        allocations = [allocation(number, first) for number in range(teams)]
        ours = kubectl_list([policy(), *allocations, allocation_of("oversized", OVERSIZED)])
        server.kubectl("apply", "--server-side", "-f", "-", stdin=ours)
        async with connect(manager="bench", kubeconfig=str(server.kubeconfig)) as client:
            start = time.monotonic()
            with controller(server) as process:
                await wait_for_statuses(client, teams + 1)
                controller_s = time.monotonic() - start
                controller_cpu_s = cpu_s_of(process.pid)
                changes = await measure_changes(client, teams)
                change_cpu_s = (cpu_s_of(process.pid) - controller_cpu_s) / len(changes)
                memory_mb = peak_memory_mb(process)
        selector = ("-A", "-l", names.ALLOCATION)
        written = json.loads(server.kubectl("get", WRITTEN_KINDS, *selector, "-o", "json"))
    manifests = [as_manifest(obj) for obj in written["items"]]
    # namespaces first
    manifests.sort(key=lambda manifest: manifest["kind"] != "Namespace")
    kubectl_s = measure_kubectl_apply(manifests)
    return {
        "objects": len(manifests),
        "seconds": controller_s,
        "kubectl_apply_s": kubectl_s,
        "ratio": controller_s / kubectl_s,
        "cpu_s": controller_cpu_s,
        "memory_mb": memory_mb,
        "change_cpu_s": change_cpu_s,
        "change_p50_s": statistics.median(changes),
        "change_p99_s": sorted(changes)[int(len(changes) * 0.99)],
    }


async def wait_for_statuses(client: Client, teams: int) -> None:
    """Waits until every team has its status, which is written last."""
    while True:
        allocations, _ = await client.list(ALLOCATIONS, dict)
        reported = [a for a in allocations if a.get("status", {}).get("conditions")]
        if len(reported) >= teams:
            return
        await asyncio.sleep(0.5)


def measure_kubectl_apply(manifests: list[Json]) -> float:
    """Seconds of `kubectl apply --server-side` of the same objects on another empty API server."""
    with bare.server() as server:
        start = time.monotonic()
        server.kubectl("apply", "--server-side", "-f", "-", stdin=kubectl_list(manifests))
        return time.monotonic() - start


async def measure_changes(client: Client, teams: int) -> list[float]:
    """Seconds from the answer to a changed allocation until its queue has the change.

    The next change follows when the status has observed this one.
    """
    durations = []
    for turn in range(CHANGES):
        number = turn % teams
        name = f"team-{number}"
        selector = f"metadata.name={name}"
        count = first_count(teams) - 1 - turn // teams
        _, version = await client.list(CLUSTER_QUEUES, dict, fields=selector)
        changed = await client.apply(ALLOCATIONS, ("", name), allocation(number, count))
        start = time.monotonic()
        async for event in client.watch(
            CLUSTER_QUEUES, dict, version=version, initial=False, fields=selector
        ):
            if event.object and nominal_quota(event.object) == str(8 * count):
                break
        durations.append(time.monotonic() - start)
        await wait_until_observed(client, name, changed["metadata"]["generation"])
        await asyncio.sleep(random.uniform(0, 1))  # noqa: S311
    return durations


async def wait_until_observed(client: Client, name: str, generation: int) -> None:
    async for event in client.watch(
        ALLOCATIONS, dict, version="", initial=True, fields=f"metadata.name={name}"
    ):
        if event.object and event.object["status"].get("observedGeneration") == generation:
            return


def nominal_quota(queue: Json) -> str:
    return str(queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])


def main() -> int:
    """Prints every run and the medians. Returns 1 if a median is above its maximum."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.quota_controller", description=__doc__
    )
    parser.add_argument("--teams", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    runs = []
    for _ in range(arguments.times):
        figures = asyncio.run(measure(arguments.teams))
        runs.append(figures)
        print(json.dumps({name: round(value, 3) for name, value in figures.items()}), flush=True)
    exit_code = 0
    for name in runs[0]:
        values = [run[name] for run in runs]
        median = statistics.median(values)
        goal = f"; goal: at most {MAXIMA[name]:g}" if name in MAXIMA else ""
        if median > MAXIMA.get(name, median):
            exit_code = 1
        print(
            f"{name}: median {median:.3g}, {min(values):.3g} to {max(values):.3g}, "
            f"n={len(values)}{goal}"
        )
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
