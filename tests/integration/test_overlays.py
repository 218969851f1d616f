"""What a platform team installs is taken by a real API server, and can be taken away without
touching a job."""

import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import deploy_local
from tests.integration.admin import governed
from tests.paths import TREE

pytestmark = pytest.mark.cluster
TEAM = "gov-away"
LOCAL, PRODUCTION = (str(TREE / "deploy" / "overlays" / name) for name in ("local", "production"))


def test_the_production_overlay_is_valid(cluster: Any) -> None:
    said = cluster.kubectl(
        "apply", "--dry-run=server", "--server-side", "--force-conflicts", "-k", PRODUCTION
    )
    assert "deployment.apps/cede-scheduler serverside-applied (server dry run)" in said
    assert "poddisruptionbudget.policy/" in said
    assert "networkpolicy.networking.k8s.io/" in said


def test_cede_is_taken_away_without_touching_a_job(cluster: Any) -> None:
    with governed(cluster) as admin:
        admin.team(TEAM, 8)
        admin.submit(admin.job(TEAM, "runs", 8, pods=8))
        admin.runs(TEAM, "runs")
        words = [
            sys.executable,
            "-m",
            "cede.cli",
            "uninstall",
            "--kubeconfig",
            str(cluster.kubeconfig),
        ]
        try:
            done = subprocess.run(words, text=True, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
            cluster.kubectl("delete", "-k", LOCAL, "--timeout=90s")
            assert "computeallocations" not in cluster.kubectl("get", "crd", "-o", "name")
            assert "runs" in admin.admitted(TEAM)
            assert not admin.evicted(TEAM, "runs")
            assert admin.queue(TEAM)["spec"]["preemption"]["reclaimWithinCohort"] == "Any", (
                "Kueue goes on by its own rules"
            )
            cluster.kubectl("delete", "job", "-n", TEAM, "--all", "--wait=true")
            cluster.kubectl("delete", "namespace", TEAM, "--wait=false")
        finally:
            deploy_local("up")
