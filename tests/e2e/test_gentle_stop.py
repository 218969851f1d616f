"""Jobs that know nothing of Cede are stopped for a preemptor, save, and continue at that step."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.demo.record import Line
from tests.e2e.conftest import (
    RESEARCH,
    apply,
    claim,
    end_claim,
    let_claim_run,
    shared_folder,
)
from tests.e2e.gentle_jobs import (
    RESTARTED,
    GentleJob,
    check_nothing_lost,
    of_cede_torch,
    restarted_steps,
)
from tests.e2e.gentle_programs import REPEATED, WITH_FRAMEWORK
from tests.marks import LONG
from tests.paths import TREE

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
ADDED = ("JobSet", "TrainJob")
"""Kinds whose controllers are added for these tests."""
MATRIX = [
    pytest.param("Job", "python"),
    # `make demo` shows it too
    pytest.param("Job", "torchrun", marks=LONG),
    pytest.param("Pod", "python", id="group of pods-python"),
    pytest.param("Pod", "torchrun", id="group of pods-torchrun", marks=LONG),
    pytest.param("Deployment", "python", marks=LONG),
    pytest.param("Deployment", "torchrun", marks=LONG),
    *(pytest.param(kind, "python", marks=LONG) for kind in ADDED),
    *(pytest.param(kind, "torchrun", marks=LONG) for kind in ADDED),
    *(pytest.param("Job", launcher, marks=LONG) for launcher in WITH_FRAMEWORK),
]
TOGETHER = ("JobSet", "TrainJob", "Pod", "Deployment")
"""Kinds that are tried at the same time, where a launcher takes a minute to start."""


@pytest.fixture
def jobs(borrowing: Cluster) -> Iterator[Cluster]:
    yield borrowing
    kubectl = borrowing.kubectl
    kubectl("delete", "job", "-n", "vision", "--all", "--wait=true")
    kubectl("delete", "cessions", "--all")
    added = (
        "trainjobs.trainer.kubeflow.org",
        "trainingruntimes.trainer.kubeflow.org",
        "jobsets.jobset.x-k8s.io",
    )
    for crd in kubectl("get", "crd", "--ignore-not-found", "-o", "name", *added).split():
        kubectl("delete", crd.partition("/")[2], "-n", RESEARCH, "--all", "--wait=true")
    kubectl("delete", "jobs,deployments", "-n", RESEARCH, "-l", "!keep", "--wait=true")
    # Kueue's finalizer stays on the pods of a group while their Workload exists
    others = [
        f"workload/{item['metadata']['name']}"
        for item in borrowing.kubectl_json("get", "workloads", "-n", RESEARCH)["items"]
        if "filler" not in item["metadata"]["name"]
    ]
    if others:
        kubectl("delete", "-n", RESEARCH, "--ignore-not-found", *others)
    kubectl("delete", "pods", "-n", RESEARCH, "-l", names.POD_GROUP, "--wait=true")


def start(gentle: GentleJob) -> str:
    """The job does some steps. Returns the name of its run."""
    run = create(gentle)
    check_trains(gentle, run)
    return run


def create(gentle: GentleJob) -> str:
    """Returns the name of its run."""
    run = f"{gentle.name}-{uuid4().hex[:8]}"
    # the webhook of a kind that Kueue has just begun to watch may not answer yet
    gentle.cluster.until(lambda: gentle.create(run), gentle.name, 60)
    return run


def check_trains(gentle: GentleJob, run: str) -> None:
    cluster = gentle.cluster
    cluster.until(lambda: len(gentle.pods()) == gentle.pod_count, f"{gentle.name} to run", 120)
    cluster.until(lambda: all("step 50" in log for log in gentle.logs(run)), "its steps", 240)


def take_back(cluster: Cluster) -> list[Json]:
    """Vision takes its half back. The progress of the jobs that are stopped for it, once their pods
    have ended."""
    known = {cession["metadata"]["uid"] for cession in cessions(cluster)}
    claim(cluster, 4)
    let_claim_run(cluster)

    def targets() -> list[Json]:
        [cession] = [item for item in cessions(cluster) if item["metadata"]["uid"] not in known]
        return list(cession["status"]["targets"])

    assert all(target["stopped"] for target in targets()), targets()
    have_ended = "the pods of stopped jobs to end"
    cluster.until(lambda: all(target.get("goneTime") for target in targets()), have_ended, 30)
    return targets()


def cessions(cluster: Cluster) -> list[Json]:
    return list(cluster.kubectl_json("get", "cessions")["items"])


def come_back(gentle: GentleJob, run: str) -> None:
    """Vision's job has ended, and the stopped one runs again."""
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
    [target] = take_back(jobs)
    # its quota is free before its pods, which save, have ended
    assert launcher in WITH_FRAMEWORK or target["releasedTime"] < target["goneTime"], target
    end_claim(jobs)
    come_back(gentle, run)
    check_all(gentle, run)


@LONG
@pytest.mark.parametrize(
    "launcher", WITH_FRAMEWORK, ids=[f"{', '.join(TOGETHER)}-{name}" for name in WITH_FRAMEWORK]
)
def test_jobs_of_all_kinds_save_when_they_are_stopped_together(
    jobs: Cluster, controllers: None, frameworks: None, launcher: str
) -> None:
    """With an accelerator each."""
    gentle_jobs = [GentleJob(jobs, kind, launcher, accelerators=1) for kind in TOGETHER]
    runs = {gentle: create(gentle) for gentle in gentle_jobs}
    for gentle, run in runs.items():
        check_trains(gentle, run)
    assert len(take_back(jobs)) == len(TOGETHER)
    end_claim(jobs)
    for gentle, run in runs.items():
        come_back(gentle, run)
    for gentle, run in runs.items():
        check_all(gentle, run)


def test_a_job_that_shall_stop_does_not_come_back_by_itself(jobs: Cluster) -> None:
    gentle = GentleJob(jobs, "Job", "python", after_preemption=names.STOP)
    run = start(gentle)
    [target] = take_back(jobs)
    assert target["staysStopped"]
    end_claim(jobs)
    notes = ("get", "events", "-n", RESEARCH, "--field-selector=reason=StaysStopped")
    jobs.until(lambda: "create it again" in str(jobs.kubectl_json(*notes)), "an event", 30)
    assert not gentle.pods()
    jobs.kubectl("delete", "job", "-n", RESEARCH, gentle.name, "--wait=true")
    gentle.create(run)
    jobs.until(lambda: len(gentle.pods()) == 2, "it to run again", 120)
    check_all(gentle, run)


@LONG
@pytest.mark.usefixtures("controllers")
def test_a_train_job_of_cede_torch_is_restarted_in_its_pods_and_repeats_no_step_of_a_stop(
    jobs: Cluster,
) -> None:
    """Its ranks, two in each pod, save after the same step when it is stopped. When a pod is lost,
    the other one stays."""
    folder = shared_folder(jobs) / f"cede-torch-{uuid4().hex[:8]}"
    train_job = of_cede_torch(folder, 2, {names.GRACE: "1m"})

    def steps() -> list[Line]:
        return restarted_steps(folder)

    def trains_beyond(step: int) -> bool:
        return [line["world"] for line in steps() if line["step"] > step][-5:] == [4] * 5

    jobs.kubectl("apply", "--server-side", "-k", str(TREE / "deploy/components/trainer"))
    jobs.until(lambda: apply(jobs, train_job), "the TrainJob", 60)
    jobs.until(lambda: trains_beyond(20), "its steps", 240)
    [target] = take_back(jobs)
    assert target["goneTime"]
    stopped_at = steps()[-1]["step"]
    end_claim(jobs)
    jobs.until(lambda: trains_beyond(stopped_at + 20), "its next steps", 240)
    numbers = [line["step"] for line in steps()]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert {line["world"] for line in steps()} == {4}

    [first, second] = job_pods(jobs)
    jobs.kubectl("delete", "pod", "-n", RESEARCH, second["metadata"]["name"], "--grace-period=1")
    known = steps()[-1]["step"]
    jobs.until(lambda: trains_beyond(known + 50), "it to train with the new pod", 240)
    [still_first, new_second] = job_pods(jobs)
    assert still_first["metadata"]["uid"] == first["metadata"]["uid"]
    assert new_second["metadata"]["uid"] != second["metadata"]["uid"]


def job_pods(cluster: Cluster) -> list[Json]:
    """Of the TrainJob, in the order of their ranks."""
    selector = ("-n", RESEARCH, "-l", f"jobset.sigs.k8s.io/jobset-name={RESTARTED}")
    items = cluster.kubectl_json("get", "pods", *selector)["items"]
    running = [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]
    return sorted(running, key=lambda pod: str(pod["metadata"]["name"]))


@LONG
def test_torchrun_lets_its_workers_save_for_longer_than_its_own_30_seconds(jobs: Cluster) -> None:
    gentle = GentleJob(jobs, "Job", "torchrun", save_s=35)
    run = start(gentle)
    take_back(jobs)
    end_claim(jobs)
    come_back(gentle, run)
    check_all(gentle, run)


@LONG
def test_a_job_that_saves_while_cede_is_released_runs_again_only_afterwards(jobs: Cluster) -> None:
    """No scheduler helps."""
    gentle = GentleJob(jobs, "Job", "python", save_s=30)
    run = start(gentle)
    claim(jobs, 4)
    jobs.until(lambda: not gentle.pods(), "its pods to be told to end", 60)
    with jobs.switched_off(names.SCHEDULER):
        release(jobs)
        end_claim(jobs)
        come_back(gentle, run)
        check_all(gentle, run)
    enforce = '{"spec": {"mode": "Enforce"}}'
    jobs.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", enforce)


def release(cluster: Cluster) -> None:
    """By the command, which waits for pods that save."""
    command = [sys.executable, "-m", "cede.cli", "release", "--kubeconfig", str(cluster.kubeconfig)]
    process = subprocess.run(command, text=True, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "waiting until the pods of" in process.stderr
