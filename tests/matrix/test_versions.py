"""The cluster is what its cell says, and Cede names what it cannot work with."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.local.__main__ import chosen_cell
from tests.harness.local_cluster import Cluster
from tests.integration.admin import CLASSES, POLICY, Admin, condition_of, governed
from tests.integration.kueue_configuration import CONFIG_KEY, CONFIG_MAP
from tests.marks import MATRIX
from tests.matrix.table import versions

pytestmark = [pytest.mark.cluster, MATRIX]
TEAM = "versions"
CELL = chosen_cell()


def findings(cluster: Cluster) -> dict[str, Json]:
    """What `cede doctor` prints, by what it is about."""
    command = [sys.executable, "-m", "cede.cli", "doctor", "-o", "json"]
    command += ["--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    return {finding["subject"]: finding for finding in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster) as admin:
        yield admin


def test_the_cluster_has_the_versions_and_gates_of_its_cell(cluster: Cluster) -> None:
    kubernetes, _ = versions(CELL)
    assert cluster.kubectl_json("version")["serverVersion"]["gitVersion"] == kubernetes
    metrics = cluster.kubectl("get", "--raw", "/metrics").splitlines()
    for gate in CELL.gates:
        enabled = [line for line in metrics if f'kubernetes_feature_enabled{{name="{gate}"' in line]
        assert [line.split()[-1] for line in enabled] == ["1"]
    configuration = cluster.kubectl_json("get", *CONFIG_MAP)["data"][CONFIG_KEY]
    assert all(gate in configuration for gate in CELL.kueue_gates)


def test_a_version_that_cede_cannot_work_with_is_named_and_any_other_is_not(admin: Admin) -> None:
    """What was not tried yet is Unknown, until its result is in results.json."""
    verdict = condition_of(admin.policy(), "KubernetesSupported")
    assert (verdict["status"] == "False") == bool(CELL.unsupported), verdict["message"]
    results = findings(admin.cluster)
    assert results["Kubernetes"]["message"] == verdict["message"]
    assert (results["Kubernetes"]["state"] == "WRONG") == bool(CELL.unsupported)
    assert results["ClusterPolicy KueueConfigured"]["state"] == "ok"


def test_a_class_named_default_is_not_that_of_every_job(admin: Admin) -> None:
    """Kueue gives it to jobs without a class, by an alpha feature gate of 0.19."""
    classes = [*CLASSES, {"name": "default", "weight": 1}]
    admin.apply_policy(priorityClasses=classes)
    admin.apply_team(TEAM, 1)
    try:
        admin.submit(admin.job(TEAM, "classless", 1))
        job = admin.cluster.kubectl_json("get", "job", "-n", TEAM, "classless")
        assert job["metadata"]["labels"][names.PRIORITY_CLASS] == POLICY["defaultPriorityClass"]
    finally:
        admin.delete_teams(TEAM)
