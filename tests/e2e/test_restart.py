"""A script that was written for torchrun gives half of its pods back and gets them again, restarted
in the pods that stay."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from cede.api import names
from cede.api.objects import Json
from deploy.demo.kubectl import parse_lines
from deploy.demo.record import Line
from deploy.local.store import PAUSE
from tests.e2e.training import Training
from tests.paths import TREE

EXAMPLES = TREE / "examples"
pytestmark = pytest.mark.cluster
# the fixture of tests/conftest.py
Cluster = Any
NAMESPACE = "research"
NAME = "restarted"


@pytest.fixture
def folder(cluster: Cluster) -> Iterator[str]:
    """Half of the cluster each. Of research's own half another job has all, so that its second job
    borrows. Yields where that one saves."""
    files = ("policy.yaml", "allocations.yaml")
    cluster.kubectl("apply", *(word for file in files for word in ("-f", str(EXAMPLES / file))))
    allocations = ("computeallocation/vision", "computeallocation/research")
    cluster.kubectl("wait", *allocations, "--for=condition=Ready", "--timeout=60s")
    create(cluster, sleeper(NAMESPACE, "filler", 4))
    cluster.until(lambda: runs(cluster, NAMESPACE, "filler"), "research's other job to run", 90)
    yield f"/shared/restarted-{uuid4().hex[:8]}"
    cluster.without_teams()


def create(cluster: Cluster, job: Json) -> None:
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))


def runs(cluster: Cluster, namespace: str, name: str) -> bool:
    job = cluster.kubectl_json("get", "job", "-n", namespace, name)
    return bool(job["status"].get("ready"))


def sleeper(namespace: str, name: str, accelerators: int) -> Json:
    """A Job that does nothing."""
    return job_of(
        namespace, name, ["python", "-c", "import time; time.sleep(3600)"], accelerators, {}
    )


def job_of(
    namespace: str, name: str, command: list[str], accelerators: int, annotations: dict[str, str]
) -> Json:
    folders = {"torch": "/var/lib/torch", "shared": "/var/lib/shared"}
    container = {
        "name": "train",
        "image": "docker.io/library/cede-training:dev",
        "command": command,
        "env": [
            {"name": "PYTHONPATH", "value": "/torch"},
            {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ],
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {names.GPU: str(accelerators)},
        },
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in folders],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in folders.items()],
    }
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    spec: Json = {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def restarted(folder: str) -> Json:
    """Of two or four pods, which have an accelerator each."""
    train = "python -m elastic_runtime --restart -- /examples/porting/restarted.py 1000000 0.02"
    command = ["sh", "-c", f"mkdir -p {folder} && cd {folder} && exec {train}"]
    annotations = {names.SIZES: "2,4", names.GRACE: "60s"}
    job = job_of(NAMESPACE, NAME, command, 1, annotations)
    job["spec"] |= {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    return job


def injected(folder: str) -> Json:
    """As its user has it for torchrun, in an image that has neither Cede nor the script."""
    command = ["torchrun", "--nproc-per-node=gpu", "/script/restarted.py", "1000000", "0.02"]
    annotations = {names.SIZES: "2,4", names.GRACE: "60s", names.RUNTIME: names.WRAP}
    job = restarted(folder)
    job["metadata"]["annotations"] = annotations
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    container |= {"image": PAUSE, "command": command, "workingDir": folder}
    container["volumeMounts"].append({"name": "script", "mountPath": "/script"})
    pod["volumes"].append({"name": "script", "configMap": {"name": "script"}})
    return job


def create_script(cluster: Cluster) -> None:
    data = {"restarted.py": (EXAMPLES / "porting" / "restarted.py").read_text()}
    metadata = {"name": "script", "namespace": NAMESPACE}
    script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(script))


@pytest.mark.parametrize("make_job", [restarted, injected])
def test_a_script_for_torchrun_repeats_no_step_when_its_job_cedes_and_grows(
    cluster: Cluster, folder: str, make_job: Callable[[str], Json]
) -> None:
    """Its own command starts the runtime, or the webhook brings both."""
    training = Training(cluster, NAMESPACE, NAME)

    def steps() -> list[Line]:
        running = training.pods()
        if not running:
            return []
        pod = running[0]["metadata"]["name"]
        show = f"cat {folder}/steps.jsonl || true"
        return parse_lines(cluster.kubectl("exec", "-n", NAMESPACE, pod, "--", "sh", "-c", show))

    def trains_with(world: int, beyond: int) -> bool:
        return [line["world"] for line in steps()[beyond:]][-3:] == [world] * 3

    create_script(cluster)
    create(cluster, make_job(folder))
    cluster.until(lambda: trains_with(4, 0), "it to train with four pods", 180)
    known = len(steps())
    create(cluster, sleeper("vision", "claim", 2))
    cluster.until(lambda: runs(cluster, "vision", "claim"), "vision's pod to run", 120)
    cluster.until(lambda: trains_with(2, known), "it to train with two pods", 120)
    known = len(steps())
    cluster.kubectl("delete", "job", "-n", "vision", "claim", "--wait=true")
    cluster.until(lambda: trains_with(4, known), "it to train with four pods again", 180)
    numbers = [line["step"] for line in steps()]
    assert numbers == [*range(1, len(numbers) + 1)]
