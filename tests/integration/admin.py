"""What an admin and the users of teams do in the tests of governance: by kubectl, on nodes that
only pretend, told by what Kueue admits."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cede.api import names
from cede.api.objects import Json
from deploy.local.cluster import fake_node
from tests.conftest import Cluster

TYPE = "gov-8gpu"
CLASSES = [
    {"name": "inference", "weight": 100},
    {"name": "training", "weight": 50},
    {"name": "sweep", "weight": 10},
]
POLICY: Json = {
    "instanceTypes": [{"name": TYPE, "accelerators": 8, "cpu": "192", "memory": "2Ti"}],
    "priorityClasses": CLASSES,
    "defaultPriorityClass": "training",
    "preemption": {
        "graceSeconds": 600,
        "minRuntimeSeconds": 0,
        "growCooldownSeconds": 0,
        "watchdogSeconds": 15,
    },
}
FAKE = {"key": "cede.dev/fake", "operator": "Exists"}


def owns(accelerators: int) -> list[Json]:
    return [{"instanceType": TYPE, "accelerators": accelerators}]


def condition(found: Json, kind: str) -> Json:
    return next((c for c in found.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def file(*objects: Json) -> str:
    """Objects as one file for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


class Admin:
    """Two nodes of eight accelerators, and whoever shares them. Every wait is for something said by
    Kueue or by Cede."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def _apply(self, found: Json) -> None:
        self.cluster.kubectl(
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=admin",
            "-f",
            "-",
            stdin=json.dumps(found),
        )

    def policy(self, **changes: Any) -> None:
        """The policy with these changes is in force."""
        meta = {"name": names.POLICY_NAME}
        self._apply(
            {
                "apiVersion": "cede.dev/v1alpha1",
                "kind": "ClusterPolicy",
                "metadata": meta,
                "spec": POLICY | changes,
            }
        )
        self._observed("clusterpolicy", names.POLICY_NAME)

    def team(self, name: str, accelerators: int, **spec: Any) -> None:
        """The allocation is in force."""
        body = {"quotas": owns(accelerators), **spec}
        self._apply(
            {
                "apiVersion": "cede.dev/v1alpha1",
                "kind": "ComputeAllocation",
                "metadata": {"name": name},
                "spec": body,
            }
        )
        self._observed("computeallocation", name)

    def _observed(self, kind: str, name: str) -> None:
        def probe() -> bool:
            found = self.cluster.kubectl_json("get", kind, name)
            said = (
                found.get("status", {}).get("observedGeneration", 0)
                == found["metadata"]["generation"]
            )
            return bool(said and condition(found, "Ready").get("status") in ("True", "False"))

        self.cluster.until(probe, f"{kind} {name} to be in force", 120)

    def allocation(self, name: str) -> Json:
        found: Json = self.cluster.kubectl_json("get", "computeallocation", name)
        return found

    def says(self, name: str, text: str) -> None:
        """The allocation's Ready condition comes to say it."""
        self.cluster.until(
            lambda: text in condition(self.allocation(name), "Ready").get("message", ""),
            f"{name} to say {text!r}",
            120,
        )

    def queue(self, name: str) -> Json:
        found: Json = self.cluster.kubectl_json("get", "clusterqueue", name)
        return found

    def limit(self, name: str, what: str = "nominalQuota") -> str | None:
        """What the team's queue says of accelerators."""
        [group] = self.queue(name)["spec"]["resourceGroups"]
        [found] = [one for one in group["flavors"][0]["resources"] if one["name"] == names.GPU]
        return str(found[what]) if what in found else None

    def job(
        self, team: str, name: str, accelerators: int, priority: str = "", pods: int = 1
    ) -> Json:
        """A Job as its user writes it: so many pods, of so many accelerators together."""
        holds = {names.GPU: str(accelerators // pods)} if accelerators else {"cpu": "1"}
        pod = {
            "restartPolicy": "Never",
            "tolerations": [FAKE],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"limits": holds}}],
        }
        labels = {names.PRIORITY_CLASS: priority} if priority else {}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": team, "labels": labels},
            "spec": {"parallelism": pods, "completions": pods, "template": {"spec": pod}},
        }

    def submit(self, *jobs: Json) -> None:
        self.cluster.kubectl("create", "-f", "-", stdin=file(*jobs))

    def cancel(self, team: str, name: str) -> None:
        self.cluster.kubectl("delete", "job", "-n", team, name, "--wait=true")
        self.cluster.until(
            lambda: name not in self.workloads(team), f"the workload of {name} to go", 120
        )

    def workloads(self, team: str) -> dict[str, Json]:
        """Job → its Workload."""
        items = self.cluster.kubectl_json("get", "workloads", "-n", team)["items"]
        return {
            w["metadata"]["ownerReferences"][0]["name"]: w
            for w in items
            if w["metadata"].get("ownerReferences")
        }

    def admitted(self, team: str) -> set[str]:
        return {
            name
            for name, w in self.workloads(team).items()
            if condition(w, "Admitted").get("status") == "True"
        }

    def runs(self, team: str, *jobs: str) -> None:
        """Kueue admits them."""
        self.cluster.until(
            lambda: set(jobs) <= self.admitted(team),
            f"{', '.join(jobs)} of {team} to be admitted",
            120,
        )

    def waits(self, team: str, job: str, why: str = "") -> None:
        """Kueue has tried and says why not."""

        def probe() -> bool:
            found = condition(self.workloads(team).get(job, {}), "QuotaReserved")
            assert found.get("status") != "True", f"{job} of {team} was admitted"
            return found.get("status") == "False" and why in found.get("message", "") != ""

        self.cluster.until(probe, f"Kueue to say of {job} of {team}: {why}", 120)

    def evicted(self, team: str, job: str) -> str:
        """Why Kueue has evicted it; empty if it has not."""
        found = condition(self.workloads(team).get(job, {}), "Evicted")
        return str(found.get("reason", "")) if found.get("status") == "True" else ""

    def clear(self, *teams: str) -> None:
        """No job of theirs is left, and Kueue knows it."""
        for team in teams:
            self.cluster.kubectl("delete", "jobs", "--all", "-n", team, "--wait=true")
        self.cluster.until(
            lambda: not any(self.workloads(team) for team in teams), "the workloads to go", 120
        )
        self.cluster.until(
            lambda: not any(self._reserved(team) for team in teams), "their quota to be free", 120
        )

    def _reserved(self, name: str) -> int:
        """Workloads that Kueue still counts in the queue, if it is there."""
        found = self.cluster.kubectl(
            "get",
            "clusterqueue",
            name,
            "--ignore-not-found",
            "-o",
            "jsonpath={.status.reservingWorkloads}",
        )
        return int(found or 0)

    def remove(self, *teams: str) -> None:
        """Allocations and namespaces are gone."""
        self.clear(*teams)
        self.cluster.kubectl(
            "delete", "computeallocation", *teams, "--wait=true", "--ignore-not-found"
        )
        self.cluster.kubectl("delete", "namespace", *teams, "--wait=false", "--ignore-not-found")


@contextmanager
def governed(cluster: Cluster, nodes: int = 2) -> Iterator[Admin]:
    """A cluster of `nodes` pretended nodes of `TYPE` under our policy; afterwards without them and
    without a policy."""
    made = [node(f"gov-{number}") for number in range(1, nodes + 1)]
    cluster.kubectl("apply", "-f", "-", stdin=file(*made))
    admin = Admin(cluster)
    try:
        admin.policy()
        yield admin
    finally:
        cluster.kubectl(
            "delete", "node", "--ignore-not-found", *(one["metadata"]["name"] for one in made)
        )
        cluster.kubectl("delete", "clusterpolicy", names.POLICY_NAME, "--ignore-not-found")


def node(name: str) -> Json:
    """A pretended node of `TYPE`."""
    return fake_node(name, 8, TYPE)
