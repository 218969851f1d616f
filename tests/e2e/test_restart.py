"""A script that was written for torchrun gives half of its pods back and gets them again, restarted
in the pods that stay."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.demo.kubectl import parse_lines
from deploy.demo.record import Line
from deploy.local.store import PAUSE
from tests.e2e.conftest import (
    EXAMPLES,
    PACKAGES,
    RESEARCH,
    apply,
    claim,
    create,
    end_claim,
    job_of,
    let_claim_run,
    shared_folder,
)
from tests.e2e.training import Training
from tests.harness.restarted_job import FRAMEWORK_SCRIPTS, has_undisturbed_losses, steps_in
from tests.marks import LONG, in_long
from tests.paths import TREE

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
NAME = "restarted"


@pytest.fixture
def folder(borrowing: Cluster) -> Iterator[str]:
    """Where the job saves, which borrows; afterwards there is no such job."""
    yield f"/shared/restarted-{uuid4().hex[:8]}"
    borrowing.kubectl("delete", "job", "-n", RESEARCH, NAME, "--ignore-not-found")


def restarted(folder: str) -> Json:
    """Of two or four pods, which have an accelerator each. It saves in the folder."""
    train = "python -m elastic_runtime --restart -- /examples/porting/restarted.py 1000000 0.02"
    command = ["sh", "-c", f"mkdir -p {folder} && cd {folder} && exec {train}"]
    job = job_of(NAME, command, {names.SIZES: "2,4", names.GRACE: "60s"})
    job["spec"] |= {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    return job


def injected(folder: str) -> Json:
    """As its user has it for torchrun, in an image that has neither Cede nor the script."""
    command = ["torchrun", "--nproc-per-node=gpu", "/script/restarted.py", "1000000", "0.02"]
    job = restarted(folder)
    job["metadata"]["annotations"][names.RUNTIME] = names.WRAP
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container |= {"image": PAUSE, "command": command, "workingDir": folder}
    container["volumeMounts"].append({"name": "script", "mountPath": "/script"})
    pod["volumes"].append({"name": "script", "configMap": {"name": "script"}})
    return job


def create_script(cluster: Cluster) -> None:
    data = {"restarted.py": (EXAMPLES / "porting" / "restarted.py").read_text()}
    metadata = {"name": "script", "namespace": RESEARCH}
    apply(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@pytest.mark.parametrize("make_job", in_long(restarted, injected))
def test_a_script_for_torchrun_repeats_no_step_when_its_job_cedes_and_grows(
    borrowing: Cluster, folder: str, make_job: Callable[[str], Json]
) -> None:
    """Its own command starts the runtime, or the webhook brings both."""
    training = Training(borrowing, RESEARCH, NAME)

    def steps() -> list[Line]:
        running = training.pods()
        if not running:
            return []
        pod = running[0]["metadata"]["name"]
        show = f"cat {folder}/steps.jsonl || true"
        return parse_lines(borrowing.kubectl("exec", "-n", RESEARCH, pod, "--", "sh", "-c", show))

    create_script(borrowing)
    create(borrowing, make_job(folder))
    cedes_and_grows(borrowing, steps)


def cedes_and_grows(
    cluster: Cluster, steps: Callable[[], Sequence[Line]], timeout_s: float = 180
) -> None:
    """From four pods to two and back, without a step that is lost or repeated. Raises
    AssertionError if one of these changes takes longer than `timeout_s`."""

    def trains_with(world: int, beyond: int) -> bool:
        return [line["world"] for line in steps()[beyond:]][-3:] == [world] * 3

    cluster.until(lambda: trains_with(4, 0), "it to train with four pods", timeout_s)
    known = len(steps())
    claim(cluster, 2)
    let_claim_run(cluster)
    cluster.until(lambda: trains_with(2, known), "it to train with two pods", timeout_s)
    known = len(steps())
    end_claim(cluster)
    cluster.until(lambda: trains_with(4, known), "it to train with four pods again", timeout_s)
    numbers = [line["step"] for line in steps()]
    assert numbers == [*range(1, len(numbers) + 1)]


# --- other programs -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Program:
    """A script for torchrun, with the lines of docs/torchrun.md."""

    script: Path
    # a framework's packages, which have a torch of their own
    has_framework: bool = True
    # of its losses: Trainer rounds them
    tolerance: float = 1e-4

    def write(self, folder: Path) -> None:
        """With the modules of the tests that it imports."""
        (folder / "tests" / "frameworks").mkdir(parents=True)
        for file in ("__init__.py", "frameworks/__init__.py", "frameworks/tiny.py"):
            shutil.copy(TREE / "tests" / file, folder / "tests" / file)
        shutil.copy(self.script, folder / "train.py")

    def job(self, folder: Path) -> Json:
        directory = f"/shared/{folder.name}"
        job = restarted(directory)
        [container] = job["spec"]["template"]["spec"]["containers"]
        start = ["python", "-m", "elastic_runtime", "--restart", "--", "train.py", "1000000", "0.1"]
        container |= {"command": start, "workingDir": directory}
        packages = "/shared/integrations" if self.has_framework else "/torch"
        [path] = [item for item in container["env"] if item["name"] == "PYTHONPATH"]
        path["value"] = f"{directory}:{packages}"
        return job

    def environment(self) -> dict[str, str]:
        """With the same packages, for a process of this machine."""
        path = f"{TREE}:{PACKAGES}" if self.has_framework else str(TREE)
        return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


PROGRAMS = {
    "DCP": Program(EXAMPLES / "porting" / "restarted_dcp.py", has_framework=False),
    "Trainer": Program(FRAMEWORK_SCRIPTS / "transformers_restart.py", tolerance=1e-3),
    "Lightning": Program(FRAMEWORK_SCRIPTS / "lightning_restart.py"),
    "Accelerate": Program(FRAMEWORK_SCRIPTS / "accelerate_restart.py"),
}


@LONG
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_of_frameworks_repeat_no_step_and_have_the_losses_of_an_undisturbed_run(
    borrowing: Cluster, folder: str, program: Program, request: pytest.FixtureRequest
) -> None:
    if program.has_framework:
        request.getfixturevalue("frameworks")
    shared = shared_folder(borrowing) / folder.rpartition("/")[2]
    program.write(shared)
    # the pods may have another user
    shared.chmod(0o777)
    create(borrowing, program.job(shared))
    cedes_and_grows(borrowing, lambda: steps_in(shared), timeout_s=300)
    borrowing.kubectl("delete", "job", "-n", RESEARCH, NAME, "--wait=true")
    has_undisturbed_losses(shared, program.environment(), program.tolerance)
