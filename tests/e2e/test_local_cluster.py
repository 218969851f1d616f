"""The local cluster behaves as a real one: nodes come, go, are cut off and come back, and `down`
leaves nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.paths import TREE

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any


def is_ready(cluster: Cluster, node: str, expected: str) -> Callable[[], bool]:
    def probe() -> bool:
        conditions = cluster.kubectl_json("get", "node", node)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == expected for c in conditions)

    return probe


def test_two_nodes_offer_four_accelerators_each(cluster: Cluster) -> None:
    for node in ("n1", "n2"):
        found = cluster.kubectl_json("get", "node", node)
        assert found["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        assert found["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "local-4gpu"
        cluster.until(is_ready(cluster, node, "True"), f"{node} to be Ready", 10)


def test_kueue_is_available_and_says_what_cede_needs(cluster: Cluster) -> None:
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


def test_up_again_keeps_the_cluster(cluster: Cluster) -> None:
    before = cluster.kubectl_json("get", "namespace", "kube-system")["metadata"]["uid"]
    subprocess.run(
        [sys.executable, "-m", "deploy.local", "up"], cwd=TREE, check=True, capture_output=True
    )
    assert cluster.kubectl_json("get", "namespace", "kube-system")["metadata"]["uid"] == before


def test_a_pod_reaches_a_service_by_name_and_torch_by_its_mount(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "probe",
                    "image": "docker.io/library/cede-training:dev",
                    "env": [{"name": "PYTHONPATH", "value": "/torch"}],
                    "command": ["python", "-c", PROBE],
                    "volumeMounts": [
                        {"name": "torch", "mountPath": "/torch", "readOnly": True},
                        {"name": "shared", "mountPath": "/shared"},
                    ],
                }
            ],
            "volumes": [
                {"name": "torch", "hostPath": {"path": "/var/lib/torch"}},
                {"name": "shared", "hostPath": {"path": "/var/lib/shared"}},
            ],
        },
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    try:
        cluster.until(
            lambda: (
                cluster.kubectl_json("get", "pod", "probe")["status"]["phase"]
                in ("Succeeded", "Failed")
            ),
            "the pod to end",
            40,
        )
        assert cluster.kubectl("logs", "probe").split() == ["2.0", "403"], (
            "a stranger is known and may not look"
        )
    finally:
        cluster.kubectl("delete", "pod", "probe", "--now")


PROBE = """
import pathlib, ssl, urllib.error, urllib.request, torch, elastic_runtime
pathlib.Path("/shared/probe").write_text("x")
pathlib.Path("/shared/probe").unlink()
print(torch.ones(2).sum().item())
try:
    urllib.request.urlopen("https://kubernetes.default.svc.cluster.local", context=ssl._create_unverified_context(), timeout=10)
except urllib.error.HTTPError as error:
    print(error.code)
"""


def test_a_cut_node_is_noticed_and_comes_back(cluster: Cluster) -> None:
    cluster.cut("n2")
    try:
        cluster.until(is_ready(cluster, "n2", "Unknown"), "n2 to be given up", 25)
    finally:
        cluster.heal("n2")
    cluster.until(is_ready(cluster, "n2", "True"), "n2 to be Ready", 25)


def test_a_lost_node_is_noticed_and_joins_again_with_its_accelerators(cluster: Cluster) -> None:
    cluster.fail("n2")
    try:
        cluster.until(is_ready(cluster, "n2", "Unknown"), "n2 to be given up", 25)
    finally:
        cluster.join("n2")
    cluster.until(is_ready(cluster, "n2", "True"), "n2 to be Ready", 25)
    assert (
        cluster.kubectl_json("get", "node", "n2")["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    )


def traces() -> set[str]:
    """All that a cluster could leave on this machine, save its cache."""
    found = {line for line in Path("/proc/self/mounts").read_text().splitlines() if "cede" in line}
    for command in (
        ["ip", "-o", "link"],
        ["ip", "route", "show", "table", "all"],
        ["nft", "list", "ruleset"],
    ):
        out = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        found |= {
            f"{command[0]}: {line.split(' qlen ')[0]}"
            for line in out.splitlines()
            if "cede" in line or "10.88." in line or "10.244." in line
        }
    found |= {
        f"cgroup: {path}"
        for top, names, _ in os.walk("/sys/fs/cgroup")
        for path in [Path(top, n) for n in names]
        if path.name == "cede"
    }
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command_line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "/cede/run/" in command_line and "deploy.local" not in command_line:
            found.add(f"process: {command_line[:100]}")
    return found


def test_down_leaves_nothing_and_up_makes_it_again(cluster: Cluster) -> None:
    assert traces(), "or this test looks in the wrong places"
    subprocess.run(
        [sys.executable, "-m", "deploy.local", "down"], cwd=TREE, check=True, capture_output=True
    )
    try:
        assert traces() == set()
    finally:
        subprocess.run(
            [sys.executable, "-m", "deploy.local", "up"], cwd=TREE, check=True, capture_output=True
        )
