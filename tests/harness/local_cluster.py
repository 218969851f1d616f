"""The local cluster as tests use it: `python -m deploy.local`, kubectl, and waiting."""

import json
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
from elastic_runtime import contract
from tests.paths import TREE

T = TypeVar("T")
POLL_INTERVAL_S = 0.1


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

        Fails the test after `seconds`.
        """
        end = time.monotonic() + seconds
        complaint = ""
        while True:
            try:
                if result := probe():
                    return result
            except AssertionError as error:
                complaint = f": {error}"
            if time.monotonic() > end:
                pytest.fail(f"waited {seconds:.0f} s for {what}{complaint}")
            time.sleep(POLL_INTERVAL_S)

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

    def without_teams(self) -> None:
        """Deletes all allocations, their jobs, the policy and all Cessions; adopted namespaces
        stay, empty."""
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
    for status in Path("/proc").glob("[0-9]*/comm"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if status.read_text().strip() == "kube-apiserver":
                return int(status.parent.name)
    raise AssertionError("no API server runs")


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
