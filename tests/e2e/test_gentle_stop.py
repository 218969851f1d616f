"""Jobs that know nothing of Cede are stopped for a preemptor, save, and continue at that step."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.e2e.gentle_jobs import IMAGE, NAMESPACE, GentleJob, check_nothing_lost
from tests.e2e.gentle_programs import LAUNCHERS, REPEATED, WITH_FRAMEWORK
from tests.harness.local_cluster import deploy_local
from tests.paths import TREE

EXAMPLES = TREE / "examples"
pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
LONG = pytest.mark.skipif("CEDE_KINDS" not in os.environ, reason="part of make test-long")
ADDED = ("JobSet", "TrainJob")
"""Kinds whose controllers are added for these tests."""
MATRIX = [
    pytest.param("Job", "python"),
    pytest.param("Job", "torchrun"),
    pytest.param("Pod", "python", id="group of pods-python"),
    pytest.param("Pod", "torchrun", id="group of pods-torchrun", marks=LONG),
    pytest.param("Deployment", "python"),
    pytest.param("Deployment", "torchrun", marks=LONG),
    *(
        pytest.param(kind, launcher, marks=LONG)
        for kind in ("Job", "Pod", "Deployment")
        for launcher in WITH_FRAMEWORK
    ),
    *(pytest.param(kind, launcher, marks=LONG) for kind in ADDED for launcher in LAUNCHERS),
]
PACKAGES = Path.home() / ".cache/cede/integrations/lib/python3.11/site-packages"
"""What `make test-integrations` installed, for the Python of the image."""


@pytest.fixture(scope="module")
def teams(cluster: Cluster) -> Iterator[Cluster]:
    """Half of the cluster each; research uses its own half for something else."""
    manifests = (EXAMPLES / "policy.yaml", EXAMPLES / "allocations.yaml")
    cluster.kubectl("apply", *(word for file in manifests for word in ("-f", str(file))))
    allocations = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *allocations, "--for=condition=Ready", "--timeout=60s")
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(sleeper(NAMESPACE, "filler")))
    cluster.until(lambda: runs(cluster, NAMESPACE, "filler"), "research's other job to run", 90)
    yield cluster
    cluster.without_teams()


@pytest.fixture
def jobs(teams: Cluster) -> Iterator[Cluster]:
    yield teams
    kubectl = teams.kubectl
    kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
    kubectl("delete", "cessions", "--all")
    added = (
        "trainjobs.trainer.kubeflow.org",
        "trainingruntimes.trainer.kubeflow.org",
        "jobsets.jobset.x-k8s.io",
    )
    for crd in kubectl("get", "crd", "--ignore-not-found", "-o", "name", *added).split():
        kubectl("delete", crd.partition("/")[2], "-n", NAMESPACE, "--all", "--wait=true")
    kubectl("delete", "jobs,deployments", "-n", NAMESPACE, "-l", "!keep", "--wait=true")
    # Kueue's finalizer stays on the pods of a group while their Workload exists
    others = [
        f"workload/{item['metadata']['name']}"
        for item in teams.kubectl_json("get", "workloads", "-n", NAMESPACE)["items"]
        if "filler" not in item["metadata"]["name"]
    ]
    if others:
        kubectl("delete", "-n", NAMESPACE, "--ignore-not-found", *others)
    kubectl("delete", "pods", "-n", NAMESPACE, "-l", names.POD_GROUP, "--wait=true")


def sleeper(namespace: str, name: str) -> Json:
    """A Job that does nothing with four accelerators."""
    container = {
        "name": "sleep",
        "image": IMAGE,
        "command": ["python", "-c", "import time; time.sleep(3600)"],
        "resources": {"limits": {names.GPU: "4"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    metadata = {"name": name, "namespace": namespace, "labels": {"keep": "true"}}
    spec = {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def runs(cluster: Cluster, namespace: str, name: str) -> bool:
    job = cluster.kubectl_json("get", "job", "-n", namespace, name)
    return bool(job["status"].get("ready"))


def start(gentle: GentleJob) -> str:
    """The job does some steps. Returns the name of its run."""
    run = f"{gentle.name}-{uuid4().hex[:8]}"
    cluster = gentle.cluster
    # the webhook of a kind that Kueue has just begun to watch may not answer yet
    cluster.until(lambda: gentle.create(run), gentle.name, 60)
    cluster.until(lambda: len(gentle.pods()) == gentle.pod_count, f"{gentle.name} to run", 120)
    cluster.until(lambda: all("step 50" in log for log in gentle.logs(run)), "its steps", 240)
    return run


def take_back(cluster: Cluster) -> Json:
    """Vision takes its half back. The progress of the job that is stopped for it."""
    known = {cession["metadata"]["uid"] for cession in cessions(cluster)}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(sleeper("vision", "claim")))
    cluster.until(lambda: runs(cluster, "vision", "claim"), "vision's pods to run", 120)
    [cession] = [item for item in cessions(cluster) if item["metadata"]["uid"] not in known]
    [target] = cession["status"]["targets"]
    assert target["stopped"], target
    return dict(target)


def cessions(cluster: Cluster) -> list[Json]:
    return list(cluster.kubectl_json("get", "cessions")["items"])


def come_back(gentle: GentleJob, run: str) -> None:
    """Vision's job ends, and the stopped one runs again."""
    gentle.cluster.kubectl("delete", "job", "-n", "vision", "claim", "--wait=true")
    if gentle.kind == "Pod":
        # the pods of a group are gone once they were stopped; their maker makes others
        gentle.create(run)
    running = gentle.pod_count
    gentle.cluster.until(lambda: len(gentle.pods()) == running, f"{gentle.name} to run again", 180)


def check_all(gentle: GentleJob, run: str) -> None:
    gentle.cluster.until(
        lambda: all(log.count("begins") == 2 for log in gentle.logs(run)), "all to begin again", 240
    )
    for log in gentle.logs(run):
        check_nothing_lost(log, REPEATED.get(gentle.launcher, 0))


@pytest.fixture(scope="module")
def frameworks(cluster: Cluster) -> None:
    """The frameworks' packages in the folder that all pods share, as links to the same files."""
    if not PACKAGES.exists():
        pytest.skip("make test-integrations installs the frameworks")
    folder = Path(cluster.kubeconfig).parent / "shared" / "integrations"
    if not folder.exists():
        subprocess.run(["cp", "-al", str(PACKAGES), str(folder)], check=True)


@pytest.fixture(scope="module")
def controllers(teams: Cluster) -> Iterator[None]:
    """JobSet and Trainer. Afterwards Kueue is restarted, which would watch their kinds on."""
    deploy_local("up", "--with", "jobset,trainer")
    yield
    deploy_local("remove", "trainer,jobset")
    kueue = ("-n", "kueue-system", "deployment/kueue-controller-manager")
    teams.kubectl("rollout", "restart", *kueue)
    teams.kubectl("rollout", "status", *kueue, "--timeout=120s")


@pytest.mark.parametrize(("kind", "launcher"), MATRIX)
def test_a_job_saves_when_it_is_stopped_and_continues_at_that_step(
    jobs: Cluster, kind: str, launcher: str, request: pytest.FixtureRequest
) -> None:
    if kind in ADDED:
        request.getfixturevalue("controllers")
    if launcher in WITH_FRAMEWORK:
        request.getfixturevalue("frameworks")
    gentle = GentleJob(jobs, kind, launcher)
    run = start(gentle)
    target = take_back(jobs)
    assert target["goneTime"], target
    come_back(gentle, run)
    check_all(gentle, run)


def test_a_job_that_shall_stop_does_not_come_back_by_itself(jobs: Cluster) -> None:
    gentle = GentleJob(jobs, "Job", "python", after_preemption=names.STOP)
    run = start(gentle)
    assert take_back(jobs)["staysStopped"]
    jobs.kubectl("delete", "job", "-n", "vision", "claim", "--wait=true")
    notes = ("get", "events", "-n", NAMESPACE, "--field-selector=reason=StaysStopped")
    jobs.until(lambda: "create it again" in str(jobs.kubectl_json(*notes)), "an event", 30)
    assert not gentle.pods()
    jobs.kubectl("delete", "job", "-n", NAMESPACE, gentle.name, "--wait=true")
    gentle.create(run)
    jobs.until(lambda: len(gentle.pods()) == 2, "it to run again", 120)
    check_all(gentle, run)


@LONG
def test_torchrun_lets_its_workers_save_for_longer_than_its_own_30_seconds(jobs: Cluster) -> None:
    gentle = GentleJob(jobs, "Job", "torchrun", save_s=35)
    run = start(gentle)
    take_back(jobs)
    come_back(gentle, run)
    check_all(gentle, run)
