"""What fails in the local cluster while teams trade, chosen by a seed.

Every fault is over when its call returns: what was frozen, cut off or without power is back.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cede.api import names
from deploy.local.paths import Paths
from tests.e2e.training import Training, index_of
from tests.harness.local_cluster import agent_pid, cluster_pid

# the fixture of tests/conftest.py
Cluster = Any
NODES = ("n1", "n2")
CONTROLLERS = {
    names.SCHEDULER: ("python", "-m", "scheduler"),
    names.WEBHOOK: ("python", "-m", "webhook"),
    names.QUOTA_CONTROLLER: ("python", "-m", "quota_controller"),
    "kueue": ("manager",),
}
"""The label app.kubernetes.io/name of their pods, and their command line."""
DAEMONS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler")
LEAST_PODS = 3
"""One of so many may fail."""
LEAST_HOLDERS = 2
"""The state of an elastic job is in the pods that did its last step."""
RECOVERY_S = 15.0
"""After a fault of an elastic job's pods, until another one of them may fail."""
TABLE = "inet cede_chaos"
NO_NETWORK = f"""table {TABLE} {{
    chain input {{ type filter hook input priority -200; policy drop; iif lo accept; }}
    chain output {{ type filter hook output priority -200; policy drop; oif lo accept; }}
}}"""
"""What is sent is lost without an answer, as when a switch fails."""


class Skipped(Exception):
    """This fault would leave no pod that has a job's state: it would lose steps by design."""


class ClusterFaults:
    def __init__(
        self, cluster: Cluster, elastic_jobs: Sequence[Training], chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._elastic_jobs = elastic_jobs
        self._chance = chance
        # of each job's pods, by the monotonic clock
        self._recovered_at = dict.fromkeys(elastic_jobs, 0.0)

    def all(self) -> dict[str, tuple[Callable[[], str], int]]:
        """By name: the fault, which returns what failed, and its weight."""
        return {
            "worker killed": (self.kill_worker, 2),
            "worker frozen": (self.freeze_worker, 1),
            "pod deleted": (self.delete_pod, 2),
            "agent killed": (self.kill_agent, 1),
            "agent frozen": (self.freeze_agent, 2),
            "controller killed": (self.kill_controller, 4),
            "controller frozen": (self.freeze_controller, 3),
            "controller cut off": (self.cut_controller, 2),
            "control plane killed": (self.kill_daemon, 2),
            "control plane frozen": (self.freeze_daemon, 3),
            "control plane cut off": (self.cut_control_plane, 1),
            "key replaced": (self.replace_key, 1),
            "node cut off": (self.cut_node, 2),
            "node frozen": (self.freeze_node, 1),
            "node without power": (self.fail_node, 1),
        }

    # --- the elastic jobs -------------------------------------------------------------------------
    def kill_worker(self) -> str:
        with self._pod() as pod:
            os.kill(pod.worker(), signal.SIGKILL)
        return str(pod)

    def freeze_worker(self) -> str:
        with self._pod() as pod:
            self._freeze(pod.worker(), 20)
        return str(pod)

    def delete_pod(self) -> str:
        force = self._chance.choice([(), ("--grace-period=0", "--force")])
        with self._pod() as pod:
            which = ("pod", "-n", pod.job.namespace, pod.job.pod_of(pod.index))
            self._cluster.kubectl("delete", *which, "--wait=false", *force)
        return f"{pod}{', at once' if force else ''}"

    def kill_agent(self) -> str:
        with self._pod() as pod:
            os.kill(pod.agent(), signal.SIGKILL)
        return str(pod)

    def freeze_agent(self) -> str:
        with self._pod() as pod:
            self._freeze(pod.agent(), 20)
        return str(pod)

    @contextmanager
    def _pod(self) -> Iterator["ElasticPod"]:
        """A pod that may fail now, pod 0 of its job as often as the others together."""
        job = self._chance.choice(self._elastic_jobs)
        indexes = [index_of(pod) for pod in job.pods()]
        holders = job.last_step().pods.intersection(indexes)
        is_early = time.monotonic() < self._recovered_at[job]
        if len(indexes) < LEAST_PODS or len(holders) < LEAST_HOLDERS or is_early:
            raise Skipped
        yield ElasticPod(job, self._chance.choice([0, self._chance.choice(indexes)]))
        self._recovered_at[job] = time.monotonic() + RECOVERY_S

    # --- controllers ------------------------------------------------------------------------------
    def kill_controller(self) -> str:
        """As a crash, with its lease held; or as an eviction, in which it may give the lease up."""
        name = self._chance.choice(list(CONTROLLERS))
        if self._chance.random() < 0.5:
            os.kill(cluster_pid(*CONTROLLERS[name]), signal.SIGKILL)
            return f"{name}, at once"
        namespace = "kueue-system" if name == "kueue" else names.SYSTEM_NAMESPACE
        selector = f"app.kubernetes.io/name={name}"
        force = ("--grace-period=0", "--force")
        self._cluster.kubectl("delete", "pod", "-n", namespace, "-l", selector, *force)
        return name

    def freeze_controller(self) -> str:
        """Up to longer than its lease lasts."""
        name = self._chance.choice(list(CONTROLLERS))
        self._freeze(cluster_pid(*CONTROLLERS[name]), 25)
        return name

    def cut_controller(self) -> str:
        """Up to longer than its lease lasts."""
        name = self._chance.choice(list(CONTROLLERS))
        self._cut_off(cluster_pid(*CONTROLLERS[name]), 25)
        return name

    def kill_daemon(self) -> str:
        name = self._chance.choice(DAEMONS)
        os.kill(cluster_pid(name), signal.SIGKILL)
        return name

    def freeze_daemon(self) -> str:
        name = self._chance.choice(DAEMONS)
        self._freeze(cluster_pid(name), 8)
        return name

    def cut_control_plane(self) -> str:
        """All of its processes together: nodes, controllers and users cannot reach it."""
        self._cut_off(cluster_pid(DAEMONS[0]), 8)
        return "from all"

    def replace_key(self) -> str:
        """No fault, but nobody may notice it. Within 10 min it happens once."""
        secret = ("secret", "-n", names.SYSTEM_NAMESPACE, names.ROOT_SECRET)
        self._cluster.kubectl("annotate", "--overwrite", *secret, f"{names.NEW_KEY}=true")
        return "asked for"

    def _freeze(self, pid: int, most_s: float) -> None:
        seconds = self._chance.uniform(1, most_s)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            # a probe or an agent may have killed it meanwhile
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGCONT)

    def _cut_off(self, pid: int, most_s: float) -> None:
        """The network of a process. It stays that of its pod if a probe kills the process."""
        with open(f"/proc/{pid}/ns/net") as network:

            def nft(*words: str, rules: str = "") -> None:
                inside = ("nsenter", f"--net=/proc/self/fd/{network.fileno()}", "nft", *words)
                subprocess.run(
                    inside, input=rules, text=True, check=True, pass_fds=[network.fileno()]
                )

            nft("-f", "-", rules=NO_NETWORK)
            try:
                time.sleep(self._chance.uniform(1, most_s))
            finally:
                nft("delete", "table", *TABLE.split())

    # --- nodes ------------------------------------------------------------------------------------
    def cut_node(self) -> str:
        """Its network, for some seconds: fewer than Kubernetes needs to give it up."""
        node = self._chance.choice(NODES)
        self._cluster.cut(node)
        try:
            time.sleep(self._chance.uniform(1, 10))
        finally:
            self._cluster.heal(node)
        return node

    def freeze_node(self) -> str:
        """Its kubelet, up to longer than Kubernetes needs to give it up: its pods run on."""
        node = self._chance.choice(NODES)
        config = Paths.of_user().run / node / "kubelet.json"
        self._freeze(cluster_pid("kubelet", "--config", str(config)), 25)
        return node

    def fail_node(self) -> str:
        """For longer than Kubernetes needs to give it up."""
        node = self._chance.choice(NODES)
        is_early = time.monotonic() < max(self._recovered_at.values())
        if is_early or not all(self._has_state_beside(node, job) for job in self._elastic_jobs):
            raise Skipped
        self._cluster.fail(node)
        try:
            time.sleep(self._chance.uniform(15, 40))
        finally:
            self._cluster.join(node)
        recovered_at = time.monotonic() + RECOVERY_S
        self._recovered_at = dict.fromkeys(self._elastic_jobs, recovered_at)
        return node

    def _has_state_beside(self, node: str, job: Training) -> bool:
        """Whether a pod on another node did the last step of this job."""
        holders = job.last_step().pods
        return any(
            pod["spec"]["nodeName"] != node and index_of(pod) in holders for pod in job.pods()
        )


@dataclass(frozen=True)
class ElasticPod:
    job: Training
    index: int

    def __str__(self) -> str:
        return f"pod {self.index} of {self.job.job}"

    def agent(self) -> int:
        """Its process ID here."""
        return agent_pid(self.job.uid(), self.index)

    def worker(self) -> int:
        """The process ID of its only worker here. Raises AssertionError if it has none."""
        agent = self.agent()
        with open(f"/proc/{agent}/task/{agent}/children") as children:
            workers = children.read().split()
        assert workers, f"{self} has no worker now"
        return int(workers[0])
