"""Fixtures that many tests share: the local cluster. A test that lacks what it needs is skipped,
and fails under CI=true."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from cede.api import names
from tests.paths import TREE

T = TypeVar("T")
# speed is measured in tests/bench, and this machine may be busy
settings.register_profile("cede", deadline=None)
settings.register_profile("long", parent=settings.get_profile("cede"), max_examples=2000)
settings.load_profile("cede")


def deploy_local(*args: str) -> str:
    """What `python -m deploy.local ARGS` prints. Raises AssertionError with its complaint."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.local", *args],
        cwd=TREE,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"deploy.local {' '.join(args)}: {done.stderr}"
    return done.stdout


@cache
def lacking(mark: str) -> str:
    """Why tests with this mark cannot run here; empty if they can."""
    if mark == "cluster":
        done = subprocess.run(
            [sys.executable, "-m", "deploy.local", "check"],
            cwd=TREE,
            text=True,
            capture_output=True,
            check=False,
        )
        return done.stderr.strip()
    import torch

    return "" if torch.cuda.is_available() else "no GPU"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`-n`), one of them runs all tests of the cluster: there is only one."""
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.xdist_group("cluster"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (why := lacking("gpu")):
        # nowhere required, CI has none
        pytest.skip(why)
    if item.get_closest_marker("cluster") and (why := lacking("cluster")):
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run this: {why}", pytrace=False)
        pytest.skip(why)


@dataclass(frozen=True)
class Cluster:
    """The local cluster, for a test to use and to break. Who breaks it mends it."""

    kubeconfig: Path
    binary: Path

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl prints. Raises AssertionError with its complaint."""
        words = [str(self.binary), "--kubeconfig", str(self.kubeconfig), *args]
        done = subprocess.run(words, text=True, capture_output=True, input=stdin, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}"
        return done.stdout

    def kubectl_json(self, *args: str) -> Any:
        return json.loads(self.kubectl(*args, "-o", "json"))

    def until(self, probe: Callable[[], T], what: str, seconds: float) -> T:
        """The first true answer of `probe`; an AssertionError in it counts as no. Fails when time
        is up."""
        end = time.monotonic() + seconds
        complaint = ""
        while True:
            try:
                if got := probe():
                    return got
            except AssertionError as error:
                complaint = f": {error}"
            if time.monotonic() > end:
                pytest.fail(f"waited {seconds:.0f} s for {what}{complaint}")
            time.sleep(0.1)

    def without_teams(self) -> None:
        """No allocation is left, nor what ran on one, nor a policy: nobody owns a part of the
        nodes. Adopted namespaces stay, empty."""
        for found in self.kubectl_json("get", "computeallocations")["items"]:
            name = found["metadata"]["name"]
            for namespace in self.kubectl(
                "get", "namespaces", "-l", f"{names.ALLOCATION}={name}", "-o", "name"
            ).split():
                self.kubectl(
                    "delete",
                    "jobs,deployments,statefulsets",
                    "--all",
                    "-n",
                    namespace.partition("/")[2],
                    "--wait=true",
                )
            self.kubectl("delete", "computeallocation", name, "--timeout=120s")
        self.kubectl("delete", "namespaces", "-l", f"{names.MANAGED_SELECTOR},{names.TEAM}", "--timeout=120s")
        self.kubectl("delete", "clusterpolicies", "--all")

    def fail(self, node: str) -> None:
        deploy_local("fail", node)

    def join(self, node: str) -> None:
        deploy_local("join", node)

    def cut(self, node: str) -> None:
        deploy_local("cut", node)

    def heal(self, node: str) -> None:
        deploy_local("heal", node)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Two nodes of four accelerators, Kueue and Cede, and no team. It is left running for the next
    session: `make down` ends it."""
    deploy_local("up")
    status = json.loads(deploy_local("status", "-o", "json"))
    cluster = Cluster(Path(status["kubeconfig"]), Path(status["kubectl"]))
    cluster.without_teams()
    return cluster
