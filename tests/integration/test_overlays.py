"""The overlays are valid for a real API server, and Cede is removed without stopping a job."""

import subprocess
import sys
from typing import Any

import pytest

from tests.harness.local_cluster import deploy_local
from tests.integration.admin import governed
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
        admin.apply_team(TEAM, 8)
        admin.submit(admin.job(TEAM, "runs", 8, pods=8))
        admin.wait_for_admission(TEAM, "runs")
        kubeconfig = str(cluster.kubeconfig)
        command = [sys.executable, "-m", "cede.cli", "uninstall", "--kubeconfig", kubeconfig]
        try:
            done = subprocess.run(command, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
            cluster.kubectl("delete", "-k", LOCAL, "--timeout=90s")
            assert "computeallocations" not in cluster.kubectl("get", "crd", "-o", "name")
            assert "runs" in admin.admitted_jobs(TEAM)
            assert not admin.eviction_reason(TEAM, "runs")
            preemption = admin.cluster_queue(TEAM)["spec"]["preemption"]
            assert preemption["reclaimWithinCohort"] == "Any", "Kueue preempts by its own rules"
            cluster.kubectl("delete", "job", "-n", TEAM, "--all", "--wait=true")
            cluster.kubectl("delete", "namespace", TEAM, "--wait=false")
        finally:
            deploy_local("up")
