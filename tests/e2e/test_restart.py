"""A script that was written for torchrun gives half of its pods back and gets them again, restarted
in the pods that stay."""

from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.demo.kubectl import parse_lines
from deploy.demo.record import Line
from tests.e2e.conftest import IMAGE, RESEARCH, claim, create, end_claim, let_claim_run
from tests.e2e.training import Training

pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
NAME = "restarted"


def restarted(folder: str) -> Json:
    """Of two or four pods, which have an accelerator each. It saves in the folder."""
    train = "python -m elastic_runtime --restart -- /examples/porting/restarted.py 1000000 0.02"
    volumes = {"torch": "/var/lib/torch", "shared": "/var/lib/shared"}
    container = {
        "name": "train",
        "image": IMAGE,
        "command": ["sh", "-c", f"mkdir -p {folder} && cd {folder} && exec {train}"],
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
    annotations = {names.SIZES: "2,4", names.GRACE: "60s"}
    metadata = {"name": NAME, "namespace": RESEARCH, "annotations": annotations}
    counts = {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    spec = {**counts, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def test_a_script_for_torchrun_repeats_no_step_when_its_job_cedes_and_grows(
    borrowing: Cluster,
) -> None:
    cluster = borrowing
    folder = f"/shared/restarted-{uuid4().hex[:8]}"
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

    create(cluster, restarted(folder))
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
