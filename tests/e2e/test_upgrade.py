"""An installation of an older version is upgraded to the present one, and goes back, while an
elastic job trains. The tests run in this order: each goes on with what the one before has left."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json, condition
from deploy.demo.figures import account
from deploy.demo.kubectl import parse_lines
from deploy.demo.record import Line, Step
from deploy.local import images, kube
from elastic_runtime import contract
from elastic_runtime.checkpointing.save_format import step_of
from tests.e2e.conftest import (
    CLAIM,
    EXAMPLES,
    IMAGE,
    RESEARCH,
    claim,
    create,
    end_claim,
    job_of,
    let_claim_run,
    runs,
    shared_folder,
    sleeper,
)
from tests.e2e.test_cession import cessions, phase
from tests.e2e.test_requested_saves import checkpoint
from tests.e2e.training import SAMPLES, STEPS, Training
from tests.harness import older_cede
from tests.harness.older_cede import KUSTOMIZATION, OlderCede
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [pytest.mark.cluster, LONG]
# the fixture of tests/conftest.py
Cluster = Any
FOLDER = "upgrade"
"""Of the script, in the folder that all pods share."""
GO = "go"
"""The file for which the first claim waits."""
ALLOCATIONS = ("computeallocation/vision", "computeallocation/research")


# --- what there is --------------------------------------------------------------------------------
def elastic_job(name: str, image: str, saves: str = "") -> Json:
    """Of two to four pods. `saves`: a folder of an earlier job, from which it continues."""
    folder = f"/shared/${contract.JOB_UID_ENV}"
    train = f"python -m elastic_runtime /shared/{FOLDER}/train.py --out {folder} --pause 0.1"
    # each pod tries it, and one of them succeeds
    link = f"mkdir -p {folder}; ln -sn {saves} {folder}/save;" if saves else ""
    job = job_of(name, ["sh", "-c", f"{link} exec {train}"], {names.SIZES: "2-4"})
    job["spec"] |= {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    job["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return job


def waiting_claim() -> Json:
    """Vision takes two accelerators back. The pod that gets them is not ready before `GO`."""
    job = sleeper(*CLAIM, 2)
    pod = job["spec"]["template"]["spec"]
    wait = f"until [ -e /shared/{FOLDER}/{GO} ]; do sleep 0.2; done"
    mount = {"name": "shared", "mountPath": "/shared"}
    command = ["sh", "-c", wait]
    waiter = {"name": "wait", "image": IMAGE, "command": command, "volumeMounts": [mount]}
    pod["initContainers"] = [waiter]
    pod["volumes"] = [{"name": "shared", "hostPath": {"path": "/var/lib/shared"}}]
    return job


def newest_phase(cluster: Cluster) -> str:
    return phase(cessions(cluster)[-1])


def pods(training: Training) -> dict[str, int]:
    """Of the job: uid → how often its container was started again."""
    return {
        pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in training.pods()
    }


def images_of_cede(cluster: Cluster) -> set[str]:
    """Of its pods that are not being deleted."""
    listed = cluster.kubectl_json("get", "pods", "-n", names.SYSTEM_NAMESPACE)["items"]
    return {
        container["image"]
        for pod in listed
        if "deletionTimestamp" not in pod["metadata"]
        for container in pod["spec"]["containers"]
    }


def lines(folder: Path, files: str) -> list[Line]:
    """Of a job's journal, from this machine."""
    return parse_lines("\n".join(path.read_text() for path in sorted(folder.glob(files))))


# --- what happens ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def older(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OlderCede]:
    """The older version, with its teams; afterwards the present one, without a team."""
    with older_cede.installed(cluster, tmp_path_factory.mktemp("older")) as older:
        for name in ("policy.yaml", "allocations.yaml"):
            cluster.kubectl("apply", "-f", str(older.tree / "examples" / name))
        at_once = '{"spec": {"preemption": {"growCooldownSeconds": 0}}}'
        cluster.kubectl("patch", "clusterpolicy", "default", "--type=merge", "-p", at_once)
        cluster.kubectl("wait", *ALLOCATIONS, "--for=condition=Ready", "--timeout=60s")
        folder = shared_folder(cluster) / FOLDER
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(EXAMPLES / "gpt", folder)
        shutil.copy(TREE / "LICENSE", folder)
        yield older


@pytest.fixture(scope="module")
def gpt(cluster: Cluster, older: OlderCede) -> Training:
    """A job with the older runtime. It borrows, and has just given two of its four accelerators
    back: the Cession is open, because the pod that gets them is not ready yet."""
    create(cluster, sleeper(RESEARCH, "filler", 4))
    cluster.until(lambda: runs(cluster, RESEARCH, "filler"), "research's other job to run", 90)
    create(cluster, elastic_job("gpt", older.image(images.TRAINING)))
    training = Training(cluster, RESEARCH, "gpt")
    cluster.until(training.trains_on(4, after=20), "it to train on four pods", 300)
    create(cluster, waiting_claim())
    cluster.until(training.trains_on(2), "it to train on two pods", 120)
    cluster.until(lambda: newest_phase(cluster) == "Admitted", "vision to be admitted", 60)
    return training


@pytest.fixture(scope="module")
def pods_before(cluster: Cluster, older: OlderCede, gpt: Training) -> dict[str, int]:
    """Of the job, just before the upgrade, which is as docs/install.md has it."""
    before = pods(gpt)
    cluster.kubectl("apply", "--server-side", "-k", str(TREE / "deploy" / "crds"))
    # it names what the changelog says, before the controllers that read it
    cluster.kubectl("apply", "-f", str(EXAMPLES / "policy.yaml"))
    cluster.kubectl("apply", "--server-side", "-k", str(TREE / KUSTOMIZATION))
    kube.wait_available(older.paths, names.SYSTEM_NAMESPACE, 180)
    assert images_of_cede(cluster) == {images.CEDE}
    return before


@pytest.fixture(scope="module")
def newer(cluster: Cluster, gpt: Training, pods_before: dict[str, int]) -> Training:
    """A job with the present runtime, from the saves of the older one, which vision has stopped."""
    claim(cluster, 4)
    let_claim_run(cluster)
    cluster.until(lambda: not gpt.pods(), "its pods to end", 120)
    saves = f"../{gpt.uid()}/save"
    cluster.kubectl("delete", "job", "-n", RESEARCH, "gpt", "--wait=true")
    end_claim(cluster)
    create(cluster, elastic_job("newer", IMAGE, saves))
    training = Training(cluster, RESEARCH, "newer")
    cluster.until(training.trains_on(4), "it to train on four pods", 300)
    return training


# --- what holds -----------------------------------------------------------------------------------
def test_a_job_trains_on_through_the_upgrade_in_the_same_pods(
    cluster: Cluster, gpt: Training, pods_before: dict[str, int]
) -> None:
    after = gpt.last_step().step
    cluster.until(gpt.trains_on(2, after=after), "it to train on", 60)
    assert pods(gpt) == pods_before
    gpt.check_undisturbed()


def test_what_the_older_version_wrote_is_read(
    cluster: Cluster, gpt: Training, pods_before: dict[str, int]
) -> None:
    """Its open Cession goes on, and ends; the job grows again, by pods of its own image."""
    assert newest_phase(cluster) == "Admitted"
    (shared_folder(cluster) / FOLDER / GO).touch()
    cluster.until(lambda: newest_phase(cluster) == "Completed", "the Cession to complete", 60)
    cluster.kubectl("wait", *ALLOCATIONS, "--for=condition=Ready", "--timeout=60s")
    for kind, name in (item.split("/") for item in (*ALLOCATIONS, "clusterpolicy/default")):
        read = cluster.kubectl_json("get", kind, name)
        ready = condition(read["status"]["conditions"], "Ready")
        assert ready, name
        assert ready["status"] == "True", f"{name}: {ready}"
    end_claim(cluster)
    cluster.until(gpt.trains_on(4), "it to grow again", 120)
    assert pods_before.keys() <= pods(gpt).keys()
    gpt.check_undisturbed()


def test_the_older_runtime_saves_and_cedes_for_the_present_scheduler(
    cluster: Cluster, gpt: Training, pods_before: dict[str, int]
) -> None:
    assert json.loads(checkpoint(cluster, "gpt").stdout)["saved"]
    claim(cluster, 2)
    let_claim_run(cluster)
    cluster.until(gpt.trains_on(2), "it to train on two pods", 60)
    cluster.until(lambda: newest_phase(cluster) == "Completed", "the Cession to complete", 60)
    [target] = cessions(cluster)[-1]["status"]["targets"]
    assert target["cededTime"], "the runtime answered the request"
    end_claim(cluster)
    cluster.until(gpt.trains_on(4), "it to grow again", 120)
    assert pods_before.items() <= pods(gpt).items()
    gpt.check_undisturbed()


def test_the_present_runtime_continues_where_the_older_one_stopped(
    cluster: Cluster, newer: Training
) -> None:
    folder = shared_folder(cluster) / newer.uid()
    before = (folder / "save").resolve().parent
    stopped_at = max(line["step"] for line in lines(before, STEPS))
    assert min(line["step"] for line in lines(folder, STEPS)) == stopped_at + 1
    check_exactly_once(folder)
    cluster.until(lambda: newest_save(folder) > stopped_at, "a save of its own", 60)


def check_exactly_once(folder: Path) -> None:
    """No step is lost or done twice, and no sample, in the journals of the job of this folder and
    of the one that it continues."""
    folders = ((folder / "save").resolve().parent, folder)
    steps = [Step.read(line) for path in folders for line in lines(path, STEPS)]
    samples = [line for path in folders for line in lines(path, SAMPLES)]
    run = lines(folder, "run.json")[0]
    counts = account(steps, samples, run["micro_batches"], run["micro_batch_size"], run["samples"])
    assert (counts.steps_lost, counts.samples_lost, counts.samples_seen_twice) == (0, 0, 0), counts


def newest_save(folder: Path) -> int:
    """The step of the newest checkpoint that is whole."""
    return max(step_of(path.parent.name) for path in (folder / "save").glob("step-*/manifest.json"))


def test_a_job_of_the_present_runtime_trains_on_and_cedes_after_a_downgrade(
    cluster: Cluster, older: OlderCede, newer: Training
) -> None:
    before = pods(newer)
    older.apply()
    assert images_of_cede(cluster) == {older.image(images.CEDE)}
    after = newer.last_step().step
    cluster.until(newer.trains_on(4, after=after), "it to train on", 60)
    assert pods(newer) == before
    cluster.kubectl("wait", *ALLOCATIONS, "--for=condition=Ready", "--timeout=60s")
    claim(cluster, 2)
    let_claim_run(cluster)
    cluster.until(newer.trains_on(2), "it to train on two pods", 60)
    cluster.until(lambda: newest_phase(cluster) == "Completed", "the Cession to complete", 60)
    assert pods(newer).items() <= before.items()
    check_exactly_once(shared_folder(cluster) / newer.uid())


def test_an_elastic_job_is_accepted_after_a_downgrade(
    cluster: Cluster, older: OlderCede, newer: Training
) -> None:
    """The older webhook gives it a queue, and the newer admission policies, which stay, pass it."""
    create(cluster, elastic_job("later", IMAGE))
    job = cluster.kubectl_json("get", "job", "-n", RESEARCH, "later")
    assert job["metadata"]["labels"][names.QUEUE_NAME] == names.LOCAL_QUEUE
    cluster.until(lambda: queue_of(cluster, "later") == names.LOCAL_QUEUE, "Kueue to queue it", 60)


def queue_of(cluster: Cluster, job: str) -> str:
    """The queue of its Workload; empty if it has none yet."""
    workloads = cluster.kubectl_json("get", "workloads", "-n", RESEARCH)["items"]
    queues = [
        workload["spec"]["queueName"]
        for workload in workloads
        if workload["metadata"]["name"].startswith(f"job-{job}-")
    ]
    return queues[0] if queues else ""
