"""A script that was written for torchrun gives half of its pods back and gets them again, restarted
in the pods that stay."""

from collections.abc import Callable, Iterator
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
    RESEARCH,
    apply,
    claim,
    create,
    end_claim,
    job_of,
    let_claim_run,
)
from tests.e2e.training import Training
from tests.marks import LONG

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


@pytest.mark.parametrize("make_job", [pytest.param(restarted, marks=LONG), injected])
def test_a_script_for_torchrun_repeats_no_step_when_its_job_cedes_and_grows(
    borrowing: Cluster, folder: str, make_job: Callable[[str], Json]
) -> None:
    """Its own command starts the runtime, or the webhook brings both."""
    cluster = borrowing
    training = Training(cluster, RESEARCH, NAME)

    def steps() -> list[Line]:
        running = training.pods()
        if not running:
            return []
        pod = running[0]["metadata"]["name"]
        show = f"cat {folder}/steps.jsonl || true"
        return parse_lines(cluster.kubectl("exec", "-n", RESEARCH, pod, "--", "sh", "-c", show))

    def trains_with(world: int, beyond: int) -> bool:
        return [line["world"] for line in steps()[beyond:]][-3:] == [world] * 3

    create_script(cluster)
    create(cluster, make_job(folder))
    cluster.until(lambda: trains_with(4, 0), "it to train with four pods", 180)
    known = len(steps())
    claim(cluster, 2)
    let_claim_run(cluster)
    cluster.until(lambda: trains_with(2, known), "it to train with two pods", 120)
    known = len(steps())
    end_claim(cluster)
    cluster.until(lambda: trains_with(4, known), "it to train with four pods again", 180)
    numbers = [line["step"] for line in steps()]
    assert numbers == [*range(1, len(numbers) + 1)]
