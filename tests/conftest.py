"""What all tests share: the settings of hypothesis, the marks, and the local cluster.

A test whose mark cannot be met here is skipped. With CI=true, a test of the cluster fails instead.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.harness.local_cluster import Cluster, deploy_local, run_deploy_local

# tests/bench measures speed, and this machine may be busy
settings.register_profile("cede", deadline=None)
settings.register_profile("long", parent=settings.get_profile("cede"), max_examples=2000)
settings.load_profile("cede")


@cache
def unmet(mark: str) -> str:
    """Why tests with this mark cannot run here; empty if they can."""
    if mark == "cluster":
        return run_deploy_local("check").stderr.strip()
    import torch

    return "" if torch.cuda.is_available() else "no GPU"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """With several workers (`-n`), see `OneWorkerForTheCluster`."""
    return OneWorkerForTheCluster(config, log)


class OneWorkerForTheCluster(LoadScopeScheduling):  # type: ignore[misc]
    """One worker runs all tests of the cluster, of which there is only one.

    The other workers take unit tests by file and tests of real processes one by one. The marks of
    `--dist loadgroup` would say the same, but pytest-xdist 3.8 loses them with pytest 9.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(("tests/integration/", "tests/e2e/", "tests/matrix/")):
            return "cluster"
        return nodeid if nodeid.startswith("tests/processes/") else nodeid.partition("::")[0]

    def remove_node(self, node: Any) -> str | None:
        """Returns the test that ended the worker, if one did. No other worker gets that test, which
        might end it too. What has run is left out: a unit without a test keeps a worker waiting."""
        units = self.assigned_work.pop(node)
        left = [test for tests in units.values() for test, has_run in tests.items() if not has_run]
        if not left:
            return None
        crashed: str = left.pop(0)
        for test in left:
            self.workqueue.setdefault(self._split_scope(test), {})[test] = False
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """A worker begins a test when it has the next one, or when it is told that none comes. One
        that replaces another starts with none, and has no tests before it has collected them."""
        if node not in self.registered_collections:
            return
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (why := unmet("gpu")):
        # no environment must have a GPU
        pytest.skip(why)
    if item.get_closest_marker("cluster") and (why := unmet("cluster")):
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must run this: {why}", pytrace=False)
        pytest.skip(why)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Two nodes of four accelerators, Kueue and Cede, and no team.

    The cluster stays for the next session: `make down` stops it.
    """
    deploy_local("up")
    status = json.loads(deploy_local("status", "-o", "json"))
    cluster = Cluster(Path(status["kubeconfig"]), Path(status["kubectl"]))
    cluster.without_teams()
    return cluster
