"""The overlays are valid for a real API server, and Cede is removed without stopping a job."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from cede.api import names
from tests.harness.local_cluster import api_server_pid, deploy_local
from tests.integration.admin import Admin, governed
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.cluster
TEAM = "gov-away"
OVERLAYS = TREE / "deploy" / "overlays"
LOCAL = str(OVERLAYS / "local")
PRODUCTION = str(OVERLAYS / "production")


def test_the_production_overlay_is_valid(cluster: Any) -> None:
    options = ("--dry-run=server", "--server-side", "--force-conflicts")
    output = cluster.kubectl("apply", *options, "-k", PRODUCTION)
    assert "deployment.apps/cede-scheduler serverside-applied (server dry run)" in output
    assert "poddisruptionbudget.policy/" in output
    assert "networkpolicy.networking.k8s.io/" in output


def test_cede_is_removed_without_stopping_a_job(cluster: Any) -> None:
    with governed(cluster) as admin:
        submit_running_job(admin)
        try:
            uninstall(cluster)
            cluster.kubectl("delete", "-k", LOCAL, "--timeout=90s")
            assert "computeallocations" not in cluster.kubectl("get", "crd", "-o", "name")
            assert_kueue_continues(admin)
            remove_team(cluster)
        finally:
            install_again(cluster)


@LONG
@pytest.mark.parametrize("first", ["manifests", "crds", "namespace"])
def test_cede_is_removed_when_something_of_it_was_deleted_first(cluster: Any, first: str) -> None:
    """As a prune of GitOps does it, too. What waits for the finalizer ends with `cede uninstall`,
    and no queue stays without preemption or on hold."""
    deleted = {
        "manifests": ("-k", LOCAL),
        "crds": ("-k", str(TREE / "deploy" / "crds")),
        "namespace": ("namespace", names.SYSTEM_NAMESPACE),
    }
    with governed(cluster) as admin:
        submit_running_job(admin)
        cluster.until(
            lambda: (
                admin.cluster_queue(TEAM)["spec"]["preemption"]["reclaimWithinCohort"] == "Never"
            ),
            "Cede to preempt instead of Kueue",
            60,
        )
        try:
            cluster.kubectl("delete", *deleted[first], "--wait=false")
            if first == "namespace":
                # with it goes the watchdog
                cluster.until(lambda: not namespace_exists(cluster), "the namespace to go", 120)
            else:
                cluster.until(
                    lambda: (
                        "deletionTimestamp"
                        in cluster.kubectl_json("get", "computeallocation", TEAM)["metadata"]
                    ),
                    "the deletion to wait for the finalizer",
                    60,
                )
            uninstall(cluster)
            assert_kueue_continues(admin)
            uninstall(cluster)
            cluster.kubectl("delete", "-k", LOCAL, "--ignore-not-found", "--timeout=90s")
            cluster.until(
                lambda: "cede.dev" not in cluster.kubectl("get", "crd", "-o", "name"),
                "the CRDs to go",
                60,
            )
            assert_kueue_continues(admin)
            remove_team(cluster)
        finally:
            install_again(cluster)


def install_again(cluster: Any) -> None:
    """A policy with parameters that is created again gets no news of them until the API server has
    restarted (policy_source.go of Kubernetes 1.36): docs/limitations.md."""
    os.kill(api_server_pid(), signal.SIGKILL)
    cluster.until(lambda: cluster.kubectl("get", "--raw", "/readyz"), "the API server", 60)
    deploy_local("up")


def namespace_exists(cluster: Any) -> bool:
    listing = cluster.kubectl("get", "namespaces", "-o", "name")
    return f"namespace/{names.SYSTEM_NAMESPACE}" in listing.split()


def submit_running_job(admin: Admin) -> None:
    admin.apply_team(TEAM, 8)
    admin.submit(admin.job(TEAM, "runs", 8, pods=8))
    admin.wait_for_admission(TEAM, "runs")


def uninstall(cluster: Any) -> None:
    kubeconfig = str(cluster.kubeconfig)
    command = [sys.executable, "-m", "cede.cli", "uninstall", "--kubeconfig", kubeconfig]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def assert_kueue_continues(admin: Admin) -> None:
    """The job runs on, and its queue preempts and admits as Kueue's own do."""
    assert "runs" in admin.admitted_jobs(TEAM)
    assert not admin.eviction_reason(TEAM, "runs")
    spec = admin.cluster_queue(TEAM)["spec"]
    assert spec["preemption"]["reclaimWithinCohort"] == "Any"
    assert spec["preemption"]["withinClusterQueue"] == "LowerPriority"
    assert spec["queueingStrategy"] == "BestEffortFIFO"
    assert spec.get("stopPolicy", "None") == "None"


def remove_team(cluster: Any) -> None:
    cluster.kubectl("delete", "job", "-n", TEAM, "--all", "--wait=true")
    cluster.kubectl("delete", "namespace", TEAM, "--wait=false")
