"""Jobs that cannot shrink are stopped for a preemptor, and continue from what they acknowledged."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from deploy.demo.figures import merged
from tests.e2e.training import Training
from tests.marks import LONG
from tests.paths import TREE

EXAMPLES = TREE / "examples"
pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
PROGRAM = """
import os, pathlib, signal, time
save = pathlib.Path("/shared", os.environ["JOB_UID"], "step-" + os.environ["JOB_COMPLETION_INDEX"])
step = int(save.read_text()) if save.exists() else 0
print("begins after step", step, flush=True)
def write(*_):
    save.parent.mkdir(exist_ok=True)
    save.write_text(str(step))
    pathlib.Path("saved").touch()
signal.signal(signal.SIGUSR1, write)
while True:
    time.sleep(0.05)
    step += 1
"""
"""Any program that saves when it gets a signal."""


@pytest.fixture
def jobs(teams: Cluster) -> Iterator[Cluster]:
    yield teams
    for namespace in ("research", "vision"):
        teams.kubectl("delete", "jobs", "-n", namespace, "--all", "--wait=true")
        # Kueue's finalizer stays on the pods of a group while their Workload exists
        teams.kubectl("delete", "workloads,pods", "-n", namespace, "--all", "--wait=true")


def fixed_size_job(**container: Any) -> Json:
    """The job of examples/gpt, on all eight accelerators or on none."""
    job: Json = yaml.safe_load((EXAMPLES / "gpt" / "job.yaml").read_text())
    job["metadata"]["annotations"] = {names.SIZES: "8"}
    job["spec"]["template"]["spec"]["containers"][0] |= container
    return job


def stop_for_vision(cluster: Cluster) -> Json:
    """Vision's job takes its quota back and ends. The progress of the job that it stopped."""
    text = (EXAMPLES / "claim.yaml").read_text()
    text = text.replace("time.sleep(15)", "time.sleep(3600)")
    known = {cession["metadata"]["uid"] for cession in cessions(cluster)}
    cluster.kubectl("apply", "-f", "-", stdin=text)
    owner = Training(cluster, "vision", "inference")
    cluster.until(lambda: len(owner.pods()) == 4, "vision's four pods to run", 90)
    [cession] = [c for c in cessions(cluster) if c["metadata"]["uid"] not in known]
    [target] = cession["status"]["targets"]
    assert target["stopped"], target
    cluster.kubectl("delete", "job", "-n", "vision", "inference", "--wait=true")
    return dict(target)


def cessions(cluster: Cluster) -> list[Json]:
    return list(cluster.kubectl_json("get", "cessions")["items"])


@LONG
def test_a_training_job_of_one_size_continues_from_the_step_that_it_acknowledged(
    jobs: Cluster,
) -> None:
    jobs.kubectl("apply", "-f", "-", stdin=json.dumps(fixed_size_job()))
    gpt = Training(jobs, "research", "gpt")
    jobs.until(gpt.trains_on(8, after=5), "research to train on 8", 300)
    target = stop_for_vision(jobs)
    assert target["cededTime"], target
    assert not target.get("forcedTime"), target
    acknowledged = target["step"]
    jobs.until(gpt.trains_on(8, acknowledged + 3), "research to train on", 180)
    assert gpt.check_nothing_lost() >= acknowledged
    steps = merged(gpt.steps())
    generations = {step.step: step.generation for step in steps}
    assert generations[acknowledged + 1] > generations[acknowledged], "it repeated steps"


def test_a_program_with_a_signal_saves_before_it_is_stopped(jobs: Cluster) -> None:
    wrapper = ["python", "-m", "elastic_runtime", "--signal", "USR1", "--done", "saved", "--"]
    job = fixed_size_job(command=[*wrapper, "python", "-c", PROGRAM])
    jobs.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    tool = Training(jobs, "research", "gpt")
    jobs.until(lambda: len(tool.pods()) == 8, "the eight pods to run", 120)
    jobs.until(lambda: set(begins(tool)) == {0}, "all programs to begin", 60)
    first = {pod["metadata"]["uid"] for pod in tool.pods()}
    target = stop_for_vision(jobs)
    assert target["cededTime"], target
    assert not target.get("forcedTime"), target
    jobs.until(
        lambda: len({pod["metadata"]["uid"] for pod in tool.pods()} - first) == 8,
        "eight new pods to run",
        180,
    )
    jobs.until(
        lambda: len(begins(tool)) == 8 and min(begins(tool)) > 0,
        "every program to continue from its save",
        60,
    )


def begins(tool: Training) -> list[int]:
    """After which step the program of each pod began, as its log says."""
    logs = [
        str(tool.cluster.kubectl("logs", "-n", tool.namespace, pod["metadata"]["name"]))
        for pod in tool.pods()
    ]
    lines = [line for log in logs for line in log.splitlines() if "begins after step" in line]
    return [int(line.split("begins after step")[1].split('"')[0]) for line in lines]


@LONG
def test_a_pod_group_runs_again_when_its_pods_are_made_again(jobs: Cluster) -> None:
    make_group(jobs, "a")
    jobs.until(lambda: len(running(jobs, "a")) == 8, "the eight pods to run", 90)
    stop_for_vision(jobs)
    # the pods of a group are gone once they were stopped; their maker makes others
    make_group(jobs, "b")
    jobs.until(lambda: len(running(jobs, "b")) == 8, "eight new pods to run", 120)


def make_group(cluster: Cluster, generation: str) -> None:
    container = fixed_size_job()["spec"]["template"]["spec"]["containers"][0]
    container = {"name": "train", "image": container["image"], "resources": container["resources"]}
    container["command"] = ["python", "-c", "import time; time.sleep(3600)"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{generation}-{index}",
                "namespace": "research",
                "labels": {
                    "kueue.x-k8s.io/pod-group-name": "group",
                    names.QUEUE_NAME: names.LOCAL_QUEUE,
                },
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": "8"},
            },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
            },
        }
        for index in range(8)
    ]
    group = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    cluster.kubectl("create", "-f", "-", stdin=group)


def running(cluster: Cluster, generation: str) -> list[str]:
    items = cluster.kubectl_json("get", "pods", "-n", "research")["items"]
    return [
        pod["metadata"]["name"]
        for pod in items
        if pod["metadata"]["name"].startswith(f"{generation}-")
        and pod["status"].get("phase") == "Running"
    ]
