"""A JobSet trains on with the pods of its surplus, which grows and cedes as any elastic job. Kueue
alone takes the surplus first."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json, condition
from deploy.demo.figures import account, merged
from deploy.demo.kubectl import parse_lines
from deploy.demo.record import Line, Step
from tests.e2e.conftest import (
    CLAIM,
    RESEARCH,
    apply,
    claim,
    end_claim,
    job_of,
    job_set_of,
    let_claim_run,
    shared_folder,
)
from tests.e2e.gentle_jobs import RESTARTED, of_cede_torch, restarted_steps
from tests.marks import LONG
from tests.paths import TREE

pytestmark = [
    pytest.mark.cluster,
    LONG,
]
# the fixture of tests/conftest.py
Cluster = Any
NAME = "gpt"
SURPLUS = f"{NAME}-surplus"
WAITS = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); signal.pause()"
)
"""A program that ends when it is told to."""
SCRIPT = """
import sys
from pathlib import Path

import torch

sys.path.insert(0, "/examples/gpt")
from model import GPT, Text, loss_of

from elastic_runtime import Session

torch.set_num_threads(1)
torch.manual_seed(0)
folder = Path(__file__).parent
text = Text("/examples/gpt/LICENSE")
model = GPT(len(text.characters), text.context)
session = Session(
    model, torch.optim.AdamW(model.parameters()), samples=len(text), micro_batches=16,
    micro_batch_size=4, checkpoint=folder / "save", save_every=20, journal=folder,
)
for step in session.steps(100_000):
    if (folder / "stop").exists():
        session.stop()
    for batch in step:
        step.backward(loss_of(model, *text.batch(batch.indices)))
"""


class Run:
    """One training job over both objects, seen by the journal in the folder that its pods share."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = f"surplus-{uuid4().hex[:8]}"
        self.folder = shared_folder(cluster) / self.name
        self.folder.mkdir()
        (self.folder / "train.py").write_text(SCRIPT)

    def lines(self, files: str) -> list[Line]:
        texts = [file.read_text() for file in self.folder.glob(files)]
        return [line for text in texts for line in parse_lines(text)]

    def steps(self) -> list[Step]:
        return [Step.read(line) for line in self.lines("steps-*.jsonl")]

    def trains_on(self, size: int) -> None:
        """Waits until it does."""
        known = max((step.step for step in self.steps()), default=0)

        def probe() -> bool:
            log = merged(self.steps())
            return bool(log) and log[-1].step > known and log[-1].size == size

        self.cluster.until(probe, f"it to train on {size} pods", 240)

    def check_nothing_lost(self) -> None:
        [run] = self.lines("run.json")
        samples = self.lines("samples-*.jsonl")
        facts = (run["micro_batches"], run["micro_batch_size"], run["samples"])
        counts = account(self.steps(), samples, *facts)
        lost = (counts.steps_lost, counts.samples_lost, counts.samples_seen_twice)
        assert lost == (0, 0, 0), f"{counts}"


def job_set(run: Run) -> Json:
    """Of two pods, with sizes 2 to 4."""
    command = ["python", "-m", "elastic_runtime", f"/shared/{run.name}/train.py"]
    return job_set_of(job_of(NAME, command, {names.SIZES: "2-4", names.GRACE: "60s"}))


def make_surplus(cluster: Cluster, name: str) -> None:
    command = [sys.executable, "-m", "cede.cli", "surplus", name, "-n", RESEARCH]
    env = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    subprocess.run(command, check=True, cwd=TREE, env=env)


def set_active(cluster: Cluster, owner: str, *, active: bool) -> None:
    name = workload(cluster, owner)["metadata"]["name"]
    patch = json.dumps({"spec": {"active": active}})
    cluster.kubectl("patch", "workload", "-n", RESEARCH, name, "--type=merge", "-p", patch)


def workload(cluster: Cluster, owner: str) -> Json:
    """The newest with quota, or that waits, of the object with this name."""
    items = cluster.kubectl_json("get", "workloads", "-n", RESEARCH)["items"]
    owned = [item for item in items if item["metadata"]["ownerReferences"][0]["name"] == owner]
    assert owned, f"{owner} has no Workload"
    return dict(max(owned, key=lambda item: str(item["metadata"]["creationTimestamp"])))


def test_a_job_set_grows_cedes_and_grows_again_by_its_surplus(lent: Cluster) -> None:
    run = Run(lent)
    # the webhook of a kind that Kueue has just begun to watch may not answer yet
    lent.until(lambda: apply(lent, job_set(run)), "the JobSet", 60)
    run.trains_on(2)
    make_surplus(lent, NAME)
    run.trains_on(4)

    claim(lent, 2)
    let_claim_run(lent)
    [cession] = lent.kubectl_json("get", "cessions")["items"]
    [target] = cession["spec"]["targets"]
    [status] = cession["status"]["targets"]
    assert (target["job"], target["toSize"]) == (SURPLUS, 0)
    assert status["cededTime"], status
    run.trains_on(2)

    end_claim(lent)
    run.trains_on(4)
    run.check_nothing_lost()

    # the base is stopped by hand: its surplus waits for it
    set_active(lent, NAME, active=False)
    lent.until(lambda: not workload(lent, SURPLUS)["spec"]["active"], "the surplus to wait", 60)
    set_active(lent, NAME, active=True)
    run.trains_on(4)
    run.check_nothing_lost()

    (run.folder / "stop").touch()

    def both_have_ended() -> bool:
        """The scheduler may stop the surplus before its last pod has ended."""
        base = lent.kubectl_json("get", "jobset", "-n", RESEARCH, NAME)
        surplus = lent.kubectl_json("get", "job", "-n", RESEARCH, SURPLUS)
        is_complete = condition(surplus["status"].get("conditions", []), "Complete")
        is_over = is_complete or not workload(lent, SURPLUS)["spec"]["active"]
        return bool(condition(base["status"].get("conditions", []), "Completed") and is_over)

    lent.until(both_have_ended, "both to end", 120)
    run.check_nothing_lost()
    lent.kubectl("delete", "jobset", "-n", RESEARCH, NAME, "--wait=true")
    jobs = ("get", "jobs", "-n", RESEARCH, "-l", "!filler", "-o", "name")
    lent.until(lambda: "surplus" not in lent.kubectl(*jobs), "its surplus to be gone", 60)


def test_a_train_job_under_restart_does_the_same(lent: Cluster) -> None:
    folder = shared_folder(lent) / f"surplus-{uuid4().hex[:8]}"
    train_job = of_cede_torch(folder, 1, {names.SIZES: "2,4", names.GRACE: "60s"})
    lent.kubectl("apply", "--server-side", "-k", str(TREE / "deploy/components/trainer"))
    lent.until(lambda: apply(lent, train_job), "the TrainJob", 60)

    def trains_on(world: int) -> None:
        known = len(restarted_steps(folder))

        def probe() -> bool:
            return [line["world"] for line in restarted_steps(folder)[known:]][-3:] == [world] * 3

        lent.until(probe, f"it to train on {world} pods", 240)

    trains_on(2)
    make_surplus(lent, RESTARTED)
    trains_on(4)
    claim(lent, 2)
    trains_on(2)
    let_claim_run(lent)
    end_claim(lent)
    trains_on(4)
    numbers = [line["step"] for line in restarted_steps(folder)]
    assert numbers == [*range(1, len(numbers) + 1)]


# --- Kueue alone ----------------------------------------------------------------------------------
@pytest.fixture
def observed(lent: Cluster) -> Iterator[Cluster]:
    """Kueue preempts by its own rules."""
    set_mode(lent, "Observe", reclaims="Any")
    yield lent
    set_mode(lent, "Enforce", reclaims="Never")


def set_mode(cluster: Cluster, mode: str, reclaims: str) -> None:
    patch = json.dumps({"spec": {"mode": mode}})
    cluster.kubectl("patch", "clusterpolicy", names.POLICY_NAME, "--type=merge", "-p", patch)

    def probe() -> bool:
        queue = cluster.kubectl_json("get", "clusterqueue", CLAIM[0])
        return bool(queue["spec"]["preemption"]["reclaimWithinCohort"] == reclaims)

    cluster.until(probe, f"the queues to be those of mode {mode}", 60)


def has_condition(cluster: Cluster, owner: str, type_: str) -> bool:
    """Whether this condition of its newest Workload is true."""
    status = workload(cluster, owner).get("status", {})
    entry = condition(status.get("conditions", []), type_)
    return bool(entry and entry["status"] == "True")


def test_kueue_alone_takes_the_surplus_and_not_its_base_though_that_was_admitted_later(
    observed: Cluster,
) -> None:
    """Both are of the same size: Kueue takes the lower class first, and only then the younger."""

    def wait_for_admission(owner: str) -> None:
        observed.until(lambda: has_condition(observed, owner, "Admitted"), f"{owner} to run", 60)

    notes = {names.SIZES: "2,4", names.GRACE: "5s"}
    base = job_set_of(job_of(NAME, ["python", "-c", WAITS], notes))
    observed.until(lambda: apply(observed, base), "the JobSet", 60)
    wait_for_admission(NAME)
    make_surplus(observed, NAME)
    wait_for_admission(SURPLUS)
    set_active(observed, NAME, active=False)
    observed.until(lambda: not has_condition(observed, NAME, "Admitted"), "the base to stop", 60)
    set_active(observed, NAME, active=True)
    wait_for_admission(NAME)

    claim(observed, 2)
    observed.until(lambda: has_condition(observed, SURPLUS, "Preempted"), "Kueue to preempt", 60)
    let_claim_run(observed)
    assert has_condition(observed, NAME, "Admitted")
    assert not has_condition(observed, NAME, "Preempted")
    assert not observed.kubectl_json("get", "cessions")["items"]
    end_claim(observed)
