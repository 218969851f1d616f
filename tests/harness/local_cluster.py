"""The local cluster as tests use it: `python -m deploy.local`, kubectl, and waiting."""

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cede.api import names
from deploy.local import network_namespaces
from deploy.local.paths import Paths
from elastic_runtime import contract
from tests.paths import TREE

T = TypeVar("T")
POLL_INTERVAL_S = 0.1
NS_GET_PARENT = 0xB702
"""An ioctl of Linux for a namespace (ioctl_ns(2))."""


def run_deploy_local(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.local", *args]
    return subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=False)


def deploy_local(*args: str) -> str:
    """What `python -m deploy.local ARGS` prints. Raises AssertionError with its error."""
    process = run_deploy_local(*args)
    assert process.returncode == 0, f"deploy.local {' '.join(args)}: {process.stderr}"
    return process.stdout


@dataclass(frozen=True)
class Cluster:
    """The local cluster. A test that breaks it must repair it."""

    kubeconfig: Path
    binary: Path
    rest: float = 1.0
    """Between two probes it waits at least so many times as long as one took."""

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints. Raises AssertionError with its error."""
        command = [str(self.binary), "--kubeconfig", str(self.kubeconfig), *args]
        process = subprocess.run(command, text=True, capture_output=True, input=stdin, check=False)
        assert process.returncode == 0, f"kubectl {' '.join(args)}: {process.stderr}"
        return process.stdout

    def kubectl_json(self, *args: str) -> Any:
        return json.loads(self.kubectl(*args, "-o", "json"))

    def until(self, probe: Callable[[], T], what: str, seconds: float) -> T:
        """The first true result of `probe`; an AssertionError in it counts as false.

        Fails the test after `seconds`. Between two probes it waits twice as long as one took, at
        most half a second, but never shorter than `rest`: most are a kubectl, which would take a
        core from what it waits for.
        """
        end = time.monotonic() + seconds
        complaint = ""
        while True:
            began = time.monotonic()
            try:
                if result := probe():
                    return result
            except AssertionError as error:
                complaint = f": {error}"
            if time.monotonic() > end:
                pytest.fail(f"waited {seconds:.0f} s for {what}{complaint}")
            took = time.monotonic() - began
            time.sleep(max(self.rest * took, min(0.5, max(POLL_INTERVAL_S, 2 * took))))

    @contextmanager
    def switched_off(self, name: str) -> Iterator[None]:
        """Inside, this Deployment of Cede has no pods, not even any that are ending."""
        deployment = ("deployment", name, "-n", names.SYSTEM_NAMESPACE)
        selector = self.kubectl_json("get", *deployment)["spec"]["selector"]["matchLabels"]
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        pods = ("pods", "-n", names.SYSTEM_NAMESPACE, "-l", labels)
        self.kubectl("scale", *deployment, "--replicas=0")
        try:
            self.until(lambda: not self.kubectl_json("get", *pods)["items"], f"{name} to end", 60)
            yield
        finally:
            self.kubectl("scale", *deployment, "--replicas=1")
            self.kubectl("wait", *deployment, "--for=condition=Available", "--timeout=120s")

    def wait_for_controllers(self) -> None:
        """Returns when Cede and Kueue serve: a node that was off may have had a webhook of theirs,
        and each takes back its pods only after the webhook of the other is there."""
        for namespace in (names.SYSTEM_NAMESPACE, "kueue-system"):
            available = ("--for=condition=Available", "--timeout=180s")
            self.kubectl("wait", "deployments", "--all", "-n", namespace, *available)

    def without_teams(self) -> None:
        """Deletes all allocations, their jobs, the policy and all Cessions; adopted namespaces
        stay, empty."""
        self.wait_for_controllers()
        for allocation in self.kubectl_json("get", "computeallocations")["items"]:
            name = allocation["metadata"]["name"]
            selector = f"{names.ALLOCATION}={name}"
            listing = self.kubectl("get", "namespaces", "-l", selector, "-o", "name")
            for namespace in listing.split():
                self._delete_work(namespace.removeprefix("namespace/"))
            self.kubectl("delete", "computeallocation", name, "--timeout=120s")
        created = f"{names.MANAGED_SELECTOR},{names.TEAM}"
        self.kubectl("delete", "namespaces", "-l", created, "--timeout=120s")
        self.kubectl("delete", "clusterpolicies", "--all")
        self.kubectl("delete", "cessions", "--all")

    def _delete_work(self, namespace: str) -> None:
        kinds = "jobs,deployments,statefulsets"
        self.kubectl("delete", kinds, "--all", "-n", namespace, "--wait=true")

    def fail(self, node: str) -> None:
        deploy_local("fail", node)

    def join(self, node: str) -> None:
        deploy_local("join", node)

    def cut(self, node: str) -> None:
        deploy_local("cut", node)

    def heal(self, node: str) -> None:
        deploy_local("heal", node)


def api_server_pid() -> int:
    """The process of the API server on this machine; it is started again when it is killed."""
    return cluster_pid("kube-apiserver")


def cluster_pid(*words: str) -> int:
    """The process in the local cluster, by its number on this machine, whose command line begins
    with the program `words[0]` and goes on with the others."""
    paths = Paths.of_user()
    control_plane = network_namespaces.pid_of(paths, network_namespaces.CONTROL_PLANE)
    assert control_plane, "no local cluster runs"
    outer = os.stat(f"/proc/{control_plane}/ns/pid").st_ino
    for process in Path("/proc").glob("[0-9]*"):
        # it may have ended
        with suppress(OSError):
            program, *rest = (process / "cmdline").read_text().rstrip("\0").split("\0")
            is_it = (Path(program).name, *rest[: len(words) - 1]) == words
            if is_it and _is_within(int(process.name), outer):
                return int(process.name)
    raise AssertionError(f"{' '.join(words)} does not run in the local cluster")


def _is_within(pid: int, outer: int) -> bool:
    """Whether the process is in the namespace `outer` of processes, or in one inside it."""
    spaces = [os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)]
    try:
        while os.fstat(spaces[-1]).st_ino != outer:
            # fails at the namespace of this process
            spaces.append(fcntl.ioctl(spaces[-1], NS_GET_PARENT))
        return True
    except PermissionError:
        return False
    finally:
        for space in spaces:
            os.close(space)


def agent_pid(job_uid: str, index: int) -> int:
    """The process, by its number on this machine, that is process 1 of this pod of a Job."""
    expected = {f"{contract.JOB_UID_ENV}={job_uid}", f"{contract.INDEX_ENV}={index}"}
    for process in Path("/proc").glob("[0-9]*"):
        # it may have ended, and some are not even root's to read
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            # the last number is that in the namespace of the process
            numbers = re.search(r"^NSpid:(.*)$", (process / "status").read_text(), re.MULTILINE)
            is_first = numbers is not None and numbers[1].split()[-1] == "1"
            if is_first and expected <= set((process / "environ").read_text().split("\0")):
                return int(process.name)
    raise AssertionError(f"pod {index} of Job {job_uid} does not run on this machine")
