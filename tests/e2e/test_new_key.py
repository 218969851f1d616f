"""The key that signs requests is replaced while a job trains: it trains on, and the next take-back
is as gentle as before."""

from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from elastic_runtime import contract
from tests.e2e.training import Training
from tests.paths import TREE

EXAMPLES = TREE / "examples"
ROOT = ("secret", names.ROOT_SECRET, "-n", names.SYSTEM_NAMESPACE)
PASSES_S = 120
"""Until the quota_controller has looked at the Secret, at most."""
KUBELET_S = 150
"""Until the kubelet has updated the file in every pod."""

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any


@pytest.fixture
def gpt(cluster: Cluster) -> Iterator[Training]:
    """Research trains on all eight accelerators, four of which vision owns."""
    for name in ("policy.yaml", "allocations.yaml"):
        cluster.kubectl("apply", "-f", str(EXAMPLES / name))
    allocations = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *allocations, "--for=condition=Ready", "--timeout=60s")
    cluster.kubectl("apply", "-f", str(EXAMPLES / "gpt" / "job.yaml"))
    training = Training(cluster, "research", "gpt")
    cluster.until(training.trains_on(8), "research to train on 8", 300)
    yield training
    cluster.without_teams()


def root_key(cluster: Cluster) -> str:
    return str(cluster.kubectl_json("get", *ROOT)["data"]["key"])


def all_have_both_keys(cluster: Cluster, gpt: Training) -> bool:
    pods = [pod["metadata"]["name"] for pod in gpt.pods()]
    read = ("--", "cat", contract.KEY_FILE)
    contents = [cluster.kubectl("exec", "-n", "research", pod, *read) for pod in pods]
    return all(len(content.splitlines()) == 2 for content in contents)


def test_a_job_is_resized_gently_after_its_key_was_replaced(
    cluster: Cluster, gpt: Training
) -> None:
    old = root_key(cluster)
    long_ago = f"{names.KEY_SINCE}=2026-01-01T00:00:00Z"
    cluster.kubectl("annotate", *ROOT, f"{names.NEW_KEY}=true", long_ago, "--overwrite")
    cluster.until(lambda: root_key(cluster) != old, "a new root key", PASSES_S)
    assert cluster.kubectl_json("get", *ROOT)["data"]["previous"] == old
    # before the kubelets have updated the file
    claim(cluster, gpt)
    cluster.until(lambda: all_have_both_keys(cluster, gpt), "both keys in every pod", KUBELET_S)
    cluster.kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
    cluster.until(gpt.trains_on(8), "research to train on 8 again", 120)
    claim(cluster, gpt)
    gpt.check_undisturbed()


def claim(cluster: Cluster, gpt: Training) -> None:
    """Vision takes four back, and no target has to be forced."""
    cluster.kubectl("apply", "-f", str(EXAMPLES / "claim.yaml"))
    cluster.until(gpt.trains_on(4), "research to train on 4", 90)
    ended = cluster.until(lambda: completed(cluster), "the Cession to be Completed", 60)
    assert not [t for cession in ended for t in cession["status"]["targets"] if "forcedTime" in t]


def completed(cluster: Cluster) -> Any:
    items = cluster.kubectl_json("get", "cessions")["items"]
    assert [item for item in items if item["status"].get("phase") != "Completed"] == []
    return items
