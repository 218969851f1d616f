"""The local cluster behaves as a real one: nodes fail and come back, and `down` leaves nothing."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from cede.api.objects import Json, condition
from tests.harness.traces import traces
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
GPU = "nvidia.com/gpu"


def deploy_local(command: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "deploy.local", command], cwd=TREE, check=True, capture_output=True
    )


def is_ready(cluster: Cluster, node: str, expected: str) -> Callable[[], bool]:
    """Whether the node's condition Ready has this status."""

    def probe() -> bool:
        conditions: list[Json] = cluster.kubectl_json("get", "node", node)["status"]["conditions"]
        return (condition(conditions, "Ready") or {}).get("status") == expected

    return probe


def test_two_nodes_offer_four_accelerators_each(cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        node = cluster.kubectl_json("get", "node", name)
        assert node["status"]["allocatable"][GPU] == "4"
        assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "local-4gpu"
        cluster.until(is_ready(cluster, name, "True"), f"{name} to be Ready", 10)


def test_kueue_is_available_with_the_settings_that_cede_needs(cluster: Cluster) -> None:
    deployment = cluster.kubectl_json(
        "get", "deployment", "-n", "kueue-system", "kueue-controller-manager"
    )
    assert deployment["status"]["availableReplicas"] == 1
    settings = cluster.kubectl(
        "get", "configmap", "-n", "kueue-system", "kueue-manager-config", "-o", "jsonpath={.data}"
    )
    assert "fairSharing" in settings
    assert "waitForPodsReady" in settings
    assert "featureGates" not in settings, "stock: no gate"


@LONG
def test_up_again_keeps_the_cluster(cluster: Cluster) -> None:
    before = cluster.kubectl_json("get", "namespace", "kube-system")["metadata"]["uid"]
    deploy_local("up")
    assert cluster.kubectl_json("get", "namespace", "kube-system")["metadata"]["uid"] == before


# --- pods -----------------------------------------------------------------------------------------
PROBE = """
import pathlib, ssl, urllib.error, urllib.request, torch, elastic_runtime
pathlib.Path("/shared/probe").write_text("x")
pathlib.Path("/shared/probe").unlink()
print(torch.ones(2).sum().item())
context = ssl._create_unverified_context()
try:
    urllib.request.urlopen(
        "https://kubernetes.default.svc.cluster.local", context=context, timeout=10
    )
except urllib.error.HTTPError as error:
    print(error.code)
"""


def probe_pod() -> Any:
    container = {
        "name": "probe",
        "image": "docker.io/library/cede-training:dev",
        "env": [{"name": "PYTHONPATH", "value": "/torch"}],
        "command": ["python", "-c", PROBE],
        "volumeMounts": [
            {"name": "torch", "mountPath": "/torch", "readOnly": True},
            {"name": "shared", "mountPath": "/shared"},
        ],
    }
    volumes = [
        {"name": "torch", "hostPath": {"path": "/var/lib/torch"}},
        {"name": "shared", "hostPath": {"path": "/var/lib/shared"}},
    ]
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}


def test_a_pod_reaches_a_service_by_name_and_torch_by_its_mount(cluster: Cluster) -> None:
    """The API server knows the pod's service account, and forbids it to read."""
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(probe_pod()))

    def has_ended() -> bool:
        phase = cluster.kubectl_json("get", "pod", "probe")["status"]["phase"]
        return phase in ("Succeeded", "Failed")

    try:
        cluster.until(has_ended, "the pod to end", 90)
        assert cluster.kubectl("logs", "probe").split() == ["2.0", "403"]
    finally:
        cluster.kubectl("delete", "pod", "probe", "--now")


# --- nodes ----------------------------------------------------------------------------------------
@LONG
def test_a_node_without_network_is_noticed_and_comes_back(cluster: Cluster) -> None:
    cluster.cut("n2")
    try:
        cluster.until(is_ready(cluster, "n2", "Unknown"), "n2 to be given up", 25)
    finally:
        cluster.heal("n2")
    cluster.until(is_ready(cluster, "n2", "True"), "n2 to be Ready", 25)


def test_a_lost_node_is_noticed_and_returns_with_its_accelerators(cluster: Cluster) -> None:
    cluster.fail("n2")
    try:
        cluster.until(is_ready(cluster, "n2", "Unknown"), "n2 to be given up", 25)
    finally:
        cluster.join("n2")
    cluster.until(is_ready(cluster, "n2", "True"), "n2 to be Ready", 25)
    assert cluster.kubectl_json("get", "node", "n2")["status"]["allocatable"][GPU] == "4"


# --- down -----------------------------------------------------------------------------------------
@LONG
def test_down_leaves_nothing_and_up_makes_it_again(cluster: Cluster) -> None:
    assert traces(), "this test looks in the wrong places"
    deploy_local("down")
    try:
        assert traces() == set()
    finally:
        deploy_local("up")
