"""What an admin and users of teams do with kubectl in the tests of governance, on fake nodes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cede.api import names
from cede.api.objects import Json, condition
from deploy.local.cluster import fake_node
from tests.harness.local_cluster import Cluster

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
"""The toleration of fake nodes."""
TIMEOUT_S = 120


def condition_of(obj: Json, type_: str) -> Json:
    """The condition of an object; empty if it has none of this type."""
    conditions: list[Json] = obj.get("status", {}).get("conditions", [])
    return condition(conditions, type_) or {}


def kubectl_list(*objects: Json) -> str:
    """Objects as one file for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


class Admin:
    """Commands of an admin and of users. Each waits until Kueue or Cede reports success."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    # --- policy and allocations -------------------------------------------------------------------
    def apply_policy(self, **changes: Any) -> None:
        """Applies `POLICY` with these changes, and waits until it is observed."""
        self._apply("ClusterPolicy", names.POLICY_NAME, POLICY | changes)

    def apply_team(self, name: str, accelerators: int, **spec: Any) -> None:
        """Applies an allocation that owns these accelerators, and waits until it is observed."""
        # the test before may have had a team of this name
        self.cluster.until(
            lambda: name not in namespaces_that_end(self.cluster), f"{name} to be gone", TIMEOUT_S
        )
        quotas = [{"instanceType": TYPE, "accelerators": accelerators}]
        self._apply("ComputeAllocation", name, {"quotas": quotas, **spec})

    def _apply(self, kind: str, name: str, spec: Json) -> None:
        body = {
            "apiVersion": "cede.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        options = ("--server-side", "--force-conflicts", "--field-manager=admin")
        self.cluster.kubectl("apply", *options, "-f", "-", stdin=json.dumps(body))

        def is_observed() -> bool:
            obj = self.cluster.kubectl_json("get", kind.lower(), name)
            observed = obj.get("status", {}).get("observedGeneration", 0)
            if observed != obj["metadata"]["generation"]:
                return False
            return condition_of(obj, "Ready").get("status") in ("True", "False")

        self.cluster.until(is_observed, f"{kind} {name} to be observed", TIMEOUT_S)

    def wait_until_cede_preempts(self, seconds: float = TIMEOUT_S) -> None:
        """Waits until it does. Kueue preempts for 5 × watchdogSeconds after a scheduler came back
        for the second time, as after restarts of the API server."""
        self.cluster.until(
            lambda: condition_of(self.policy(), "SchedulerLeads").get("status") == "True",
            "Cede to preempt",
            seconds,
        )

    def allocation(self, name: str) -> Json:
        obj: Json = self.cluster.kubectl_json("get", "computeallocation", name)
        return obj

    def policy(self) -> Json:
        obj: Json = self.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME)
        return obj

    def wait_for_message(self, name: str, text: str) -> None:
        """Waits until condition Ready of the allocation has this text in its message."""

        def has_text() -> bool:
            return text in condition_of(self.allocation(name), "Ready").get("message", "")

        self.cluster.until(has_text, f"{name} to report {text!r}", TIMEOUT_S)

    def delete_teams(self, *teams: str) -> None:
        """Deletes jobs, allocations and namespaces of these teams."""
        self.delete_jobs(*teams)
        self.cluster.kubectl(
            "delete", "computeallocation", *teams, "--wait=true", "--ignore-not-found"
        )
        self.cluster.kubectl("delete", "namespace", *teams, "--wait=false", "--ignore-not-found")

    def release(self) -> None:
        """`cede release`, which has done its writes when it ends."""
        kubeconfig = str(self.cluster.kubeconfig)
        command = [sys.executable, "-m", "cede.cli", "release", "--kubeconfig", kubeconfig]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    # --- queues -----------------------------------------------------------------------------------
    def cluster_queue(self, name: str) -> Json:
        obj: Json = self.cluster.kubectl_json("get", "clusterqueue", name)
        return obj

    def accelerator_quota(self, name: str, field: str = "nominalQuota") -> str | None:
        """The quota or limit of accelerators in the team's queue; None if the field is not set."""
        [group] = self.cluster_queue(name)["spec"]["resourceGroups"]
        resources = group["flavors"][0]["resources"]
        [entry] = [entry for entry in resources if entry["name"] == names.GPU]
        return str(entry[field]) if field in entry else None

    # --- jobs -------------------------------------------------------------------------------------
    def job(
        self, team: str, name: str, accelerators: int, priority: str = "", pods: int = 1
    ) -> Json:
        """A Job as its user writes it; all its pods together have this number of accelerators."""
        limits = {names.GPU: str(accelerators // pods)} if accelerators else {"cpu": "1"}
        pod = {
            "restartPolicy": "Never",
            "tolerations": [FAKE],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"limits": limits}}],
        }
        labels = {names.PRIORITY_CLASS: priority} if priority else {}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": team, "labels": labels},
            "spec": {"parallelism": pods, "completions": pods, "template": {"spec": pod}},
        }

    def submit(self, *jobs: Json) -> None:
        self.cluster.kubectl("create", "-f", "-", stdin=kubectl_list(*jobs))

    def workloads_by_job(self, team: str) -> dict[str, Json]:
        """Job → its Workload."""
        items = self.cluster.kubectl_json("get", "workloads", "-n", team)["items"]
        return {
            workload["metadata"]["ownerReferences"][0]["name"]: workload
            for workload in items
            if workload["metadata"].get("ownerReferences")
        }

    def admitted_jobs(self, team: str) -> set[str]:
        return {
            job
            for job, workload in self.workloads_by_job(team).items()
            if condition_of(workload, "Admitted").get("status") == "True"
        }

    def wait_for_workload(self, team: str, job: str) -> None:
        """Waits until the job has a Workload."""
        self.cluster.until(
            lambda: job in self.workloads_by_job(team), f"a Workload of {team}/{job}", TIMEOUT_S
        )

    def wait_for_admission(self, team: str, *jobs: str) -> None:
        """Waits until Kueue has admitted these jobs."""
        self.cluster.until(
            lambda: set(jobs) <= self.admitted_jobs(team),
            f"{', '.join(jobs)} of {team} to be admitted",
            TIMEOUT_S,
        )

    def wait_until_pending(self, team: str, job: str, why: str = "") -> None:
        """Waits until Kueue has tried to admit the job and reports why it does not fit.

        Its message must contain `why`.
        """

        def is_pending() -> bool:
            workload = self.workloads_by_job(team).get(job, {})
            reserved = condition_of(workload, "QuotaReserved")
            assert reserved.get("status") != "True", f"{job} of {team} was admitted"
            message = reserved.get("message", "")
            return reserved.get("status") == "False" and bool(message) and why in message

        self.cluster.until(is_pending, f"{job} of {team} to be pending: {why}", TIMEOUT_S)

    def eviction_reason(self, team: str, job: str) -> str:
        """Why Kueue has evicted the job; empty if it has not."""
        evicted = condition_of(self.workloads_by_job(team).get(job, {}), "Evicted")
        return str(evicted.get("reason", "")) if evicted.get("status") == "True" else ""

    def delete_job(self, team: str, name: str) -> None:
        """Deletes the job and waits until its Workload is gone."""
        self.cluster.kubectl("delete", "job", "-n", team, name, "--wait=true")
        self.cluster.until(
            lambda: name not in self.workloads_by_job(team),
            f"the Workload of {name} to be gone",
            TIMEOUT_S,
        )

    def delete_jobs(self, *teams: str) -> None:
        """Deletes all jobs of these teams, and waits until Kueue counts none in their queues."""
        for team in teams:
            self.cluster.kubectl("delete", "jobs", "--all", "-n", team, "--wait=true")
        self.cluster.until(
            lambda: not any(self.workloads_by_job(team) for team in teams),
            "the Workloads to be gone",
            TIMEOUT_S,
        )
        self.cluster.until(
            lambda: not any(self._reserving_workloads(team) for team in teams),
            "their quota to be free",
            TIMEOUT_S,
        )

    def _reserving_workloads(self, name: str) -> int:
        """Workloads that Kueue counts in the queue; 0 if there is no queue."""
        path = "jsonpath={.status.reservingWorkloads}"
        count = self.cluster.kubectl("get", "clusterqueue", name, "--ignore-not-found", "-o", path)
        return int(count or 0)


@contextmanager
def governed(cluster: Cluster, nodes: int = 2) -> Iterator[Admin]:
    """A cluster with `nodes` fake nodes of `TYPE` and a policy, which are deleted afterwards."""
    fake_nodes = [node(f"gov-{number}") for number in range(1, nodes + 1)]
    cluster.kubectl("apply", "-f", "-", stdin=kubectl_list(*fake_nodes))
    admin = Admin(cluster)
    # a fixture that failed leaves its teams
    cluster.without_teams()
    try:
        admin.apply_policy()
        admin.wait_until_cede_preempts()
        yield admin
    finally:
        node_names = [fake["metadata"]["name"] for fake in fake_nodes]
        cluster.kubectl("delete", "node", "--ignore-not-found", *node_names)
        cluster.kubectl("delete", "clusterpolicy", names.POLICY_NAME, "--ignore-not-found")


def namespaces_that_end(cluster: Cluster) -> list[str]:
    namespaces = cluster.kubectl_json("get", "namespaces")["items"]
    metadata = [namespace["metadata"] for namespace in namespaces]
    return [meta["name"] for meta in metadata if "deletionTimestamp" in meta]


def node(name: str) -> Json:
    """A fake node of `TYPE` with eight accelerators."""
    return fake_node(name, 8, TYPE)
