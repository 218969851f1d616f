"""What several of these tests begin with: the teams of examples/, and jobs that do nothing."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from tests.harness.local_cluster import deploy_local
from tests.paths import TREE

EXAMPLES = TREE / "examples"
IMAGE = "docker.io/library/cede-training:dev"
RESEARCH = "research"
CLAIM = ("vision", "claim")
"""The job by which vision takes its half back."""
PACKAGES = Path.home() / ".cache/cede/integrations/lib/python3.11/site-packages"
"""What `make test-integrations` installed, for the Python of the image."""
# the fixture of tests/conftest.py
Cluster = Any


@pytest.fixture(scope="module")
def teams(cluster: Cluster) -> Iterator[Cluster]:
    """Vision and research, which own half of the cluster each."""
    cluster.wait_for_controllers()
    for name in ("policy.yaml", "allocations.yaml"):
        cluster.kubectl("apply", "-f", str(EXAMPLES / name))
    allocations = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *allocations, "--for=condition=Ready", "--timeout=60s")
    yield cluster
    cluster.without_teams()


@pytest.fixture(scope="module")
def borrowing(teams: Cluster) -> Cluster:
    """A job that does nothing has research's own half, so that its next one borrows."""
    create(teams, sleeper(RESEARCH, "filler", 4))
    teams.until(lambda: runs(teams, RESEARCH, "filler"), "research's other job to run", 90)
    return teams


@pytest.fixture(scope="module")
def growing(teams: Cluster) -> Cluster:
    """Elastic jobs grow without a cooldown."""
    at_once = '{"spec": {"preemption": {"growCooldownSeconds": 0}}}'
    teams.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", at_once)
    return teams


@pytest.fixture(scope="module")
def controllers(cluster: Cluster) -> Iterator[None]:
    """JobSet and Trainer."""
    deploy_local("up", "--with", "jobset,trainer")
    yield
    deploy_local("remove", "trainer,jobset")


@pytest.fixture(scope="module")
def frameworks(cluster: Cluster) -> None:
    """The frameworks' packages in the folder that all pods share, as links to the same files."""
    if not PACKAGES.exists():
        pytest.skip("make test-integrations installs the frameworks")
    folder = shared_folder(cluster) / "integrations"
    if not folder.exists():
        subprocess.run(["cp", "-al", str(PACKAGES), str(folder)], check=True)


@pytest.fixture
def lent(controllers: None, borrowing: Cluster) -> Iterator[Cluster]:
    """All that research starts borrows. Afterwards nothing of it is left."""
    yield borrowing
    kinds = "trainjobs,jobsets,cessions"
    borrowing.kubectl("delete", kinds, "-n", RESEARCH, "--all", "--wait=true")


def shared_folder(cluster: Cluster) -> Path:
    """Where this machine has the folder `/shared` of all pods."""
    return Path(cluster.kubeconfig).parent / "shared"


def claim(cluster: Cluster, accelerators: int) -> None:
    """Vision takes so many of its accelerators back."""
    create(cluster, sleeper(*CLAIM, accelerators))


def let_claim_run(cluster: Cluster) -> None:
    cluster.until(lambda: runs(cluster, *CLAIM), "vision's pod to run", 120)


def end_claim(cluster: Cluster) -> None:
    namespace, name = CLAIM
    cluster.kubectl("delete", "job", "-n", namespace, name, "--wait=true")


def create(cluster: Cluster, job: Json) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))


def apply(cluster: Cluster, resource: Json) -> str:
    return str(cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(resource)))


def runs(cluster: Cluster, namespace: str, name: str) -> bool:
    job = cluster.kubectl_json("get", "job", "-n", namespace, name)
    return bool(job["status"].get("ready"))


def elastic_job(namespace: str, sizes: str, pods: int) -> Json:
    """The example with these sizes and so many pods."""
    job: Json = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"] |= {"namespace": namespace, "annotations": {names.SIZES: sizes}}
    job["spec"] |= {"parallelism": pods, "completions": pods}
    return job


def job_of(name: str, command: list[str], annotations: dict[str, str]) -> Json:
    """A Job of research's with torch and the folder `/shared`, and one accelerator in each pod."""
    volumes = {"torch": "/var/lib/torch", "shared": "/var/lib/shared"}
    container = {
        "name": "train",
        "image": IMAGE,
        "command": command,
        "env": [
            {"name": "PYTHONPATH", "value": "/torch"},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ],
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {names.GPU: "1"},
        },
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in volumes],
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in volumes.items()],
    }
    metadata = {"name": name, "namespace": RESEARCH, "annotations": annotations}
    spec: Json = {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def job_set_of(job: Json) -> Json:
    """Of two pods of this Job, which start the runtime."""
    job["spec"] |= {"completionMode": "Indexed", "parallelism": 2, "completions": 2}
    job["spec"]["template"]["metadata"] = {"labels": {names.ELASTIC_POD: "true"}}
    replicated = {"name": "node", "template": {"spec": job["spec"]}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": job["metadata"],
        "spec": {"replicatedJobs": [replicated]},
    }


def sleeper(namespace: str, name: str, accelerators: int, seconds: int = 3600) -> Json:
    """A Job that does nothing for so long."""
    container = {
        "name": "sleep",
        "image": IMAGE,
        "command": ["python", "-c", f"import time; time.sleep({seconds})"],
        "resources": {"limits": {names.GPU: str(accelerators)}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    metadata = {"name": name, "namespace": namespace, "labels": {"keep": "true"}}
    spec = {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
