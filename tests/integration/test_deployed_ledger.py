"""The ledger as an admin deploys it: its pod counts, and its books outlive it."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.local.images import CEDE
from tests.harness.local_cluster import Cluster
from tests.integration.admin import TIMEOUT_S, Admin, governed
from tests.integration.books import CONFIRMED_WITHIN_S, TOLERANCE_S, Books
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [pytest.mark.cluster, LONG]
TEAM = "gov-books"
PODS = 8
COMPONENT = TREE / "deploy/components/ledger"
SYSTEM = ("-n", names.SYSTEM_NAMESPACE)
SELECTOR = f"app.kubernetes.io/name={names.LEDGER}"


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with governed(cluster) as admin:
        admin.apply_team(TEAM, PODS)
        yield admin
        admin.delete_teams(TEAM)


class DeployedLedger(Books):
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def run(self, *words: str) -> str:
        command = ("python", "-m", "ledger", *words)
        return self.cluster.kubectl("exec", *SYSTEM, f"deploy/{names.LEDGER}", "--", *command)

    def pods(self) -> dict[str, bool]:
        """By uid: whether it is ready. A pod that ends counts too."""
        pods = self.cluster.kubectl_json("get", "pods", *SYSTEM, "-l", SELECTOR)["items"]
        return {pod["metadata"]["uid"]: is_ready(pod) for pod in pods}


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@pytest.fixture
def ledger(admin: Admin, tmp_path: Path) -> Iterator[DeployedLedger]:
    """By `kubectl apply -k` of an overlay that names the image. The local cluster provides no
    volumes, so the admin makes one, of the folder that all nodes have."""
    cluster = admin.cluster
    folder = cluster.kubeconfig.parent / "shared" / "ledger"
    # of a session that was ended
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    image, tag = CEDE.rsplit(":", 1)
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(COMPONENT, tmp_path.resolve())],
        "images": [{"name": "cede", "newName": image, "newTag": tag}],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(overlay))
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(volume("/var/lib/shared/ledger")))
    try:
        cluster.kubectl("apply", "--server-side", "-k", str(tmp_path))
        available = ("--for=condition=Available", f"--timeout={TIMEOUT_S}s")
        cluster.kubectl("wait", *SYSTEM, f"deploy/{names.LEDGER}", *available)
        yield DeployedLedger(cluster)
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-k", str(tmp_path), "--timeout=120s")
        cluster.kubectl("delete", "--ignore-not-found", "lease", names.LEDGER, *SYSTEM)
        cluster.kubectl("delete", "persistentvolume", names.LEDGER, "--timeout=60s")
        shutil.rmtree(folder)


def volume(path: str) -> Json:
    """For the claim of the component only."""
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": names.LEDGER},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOncePod"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": names.SYSTEM_NAMESPACE, "name": names.LEDGER},
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [linux]}]}},
        },
    }


def test_its_books_outlive_its_pod_with_a_gap(admin: Admin, ledger: DeployedLedger) -> None:
    cluster = admin.cluster
    admin.submit(admin.job(TEAM, "gpt", PODS, pods=PODS))
    admin.wait_for_admission(TEAM, "gpt")
    began = time.time()
    cluster.until(
        lambda: ledger.job_seconds("gpt", "used") > PODS * 10,
        "ten seconds of the job to be in the books",
        CONFIRMED_WITHIN_S,
    )
    before = ledger.pods()
    used_before_s = ledger.job_seconds("gpt", "used")
    cluster.kubectl("delete", "pods", *SYSTEM, "-l", SELECTOR, "--wait=true")
    cluster.until(
        lambda: list((pods := ledger.pods()).values()) == [True] and not pods.keys() & before,
        "another pod to be ready",
        TIMEOUT_S,
    )
    cluster.until(ledger.gap_s, "the restart to be in the books", CONFIRMED_WITHIN_S)
    assert ledger.job_seconds("gpt", "used") >= used_before_s, "the books of the first pod"
    admin.delete_job(TEAM, "gpt")
    ended = time.time()
    cluster.until(
        lambda: ledger.has(ended + 1), "the end of the job to be in the books", CONFIRMED_WITHIN_S
    )
    used_s = ledger.job_seconds("gpt", "used")
    assert used_s / PODS == pytest.approx(ended - began - ledger.gap_s(), abs=TOLERANCE_S)
    assert {row["difference"] for row in ledger.statement()["balance"]} == {"0.000000"}
    assert "checked against" in ledger.run("verify"), "the pod may read its own note"
