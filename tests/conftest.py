"""What all tests share: the settings of hypothesis, the marks, and the local cluster.

A test whose mark cannot be met here is skipped. With CI=true, a test of the cluster fails instead.
"""

import json
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`-n`), one of them runs all tests of the cluster: there is only one."""
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.xdist_group("cluster"))


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
