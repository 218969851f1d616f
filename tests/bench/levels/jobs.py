"""The target of each level, and the other jobs, as manifests."""

from dataclasses import dataclass

from cede.api import names
from cede.api.objects import Json
from tests.bench.levels.workers.tiny import ON_SIGNAL

PODS = 4
"""Of a target that can be resized, with an accelerator each; otherwise one pod has all."""
CLAIM = 2
"""Accelerators, in as many pods."""
WORKERS = "tests/bench/levels/workers"
TORCHRUN = f"-m torch.distributed.run --standalone --nproc-per-node {PODS} {WORKERS}/plain.py"


@dataclass(frozen=True)
class Level:
    name: str
    label: str
    # Arguments of Python; those of the script follow.
    command: str
    is_elastic: bool
    # The mode of the policy.
    mode: str = "Enforce"


LEVELS = (
    Level("L0", "L0: gentle stop", f"{TORCHRUN} {{folder}} {ON_SIGNAL}", False),
    Level(
        "L1",
        "L1: restart in the pod",
        f"-m elastic_runtime --restart -- {WORKERS}/plain.py {{folder}} {ON_SIGNAL}",
        True,
    ),
    Level("L2", "L2: Session", f"-m elastic_runtime {WORKERS}/in_session.py {{folder}}", True),
    Level("kill", "killed by stock Kueue", f"{TORCHRUN} {{folder}}", False, mode="Observe"),
)


def target(level: Level, name: str, tree: str, folder: str) -> Json:
    """The job of `research`. `tree`: the folder of this repository's `tests`, as pods see it."""
    command = f"cd {tree} && exec python {level.command.format(folder=folder)}"
    pods = PODS if level.is_elastic else 1
    job = job_of("research", name, ["sh", "-c", command], pods, PODS // pods)
    env = {"PYTHONPATH": f"/torch:{tree}", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    job["metadata"]["annotations"] = {names.GRACE: "60s"}
    if level.is_elastic:
        job["metadata"]["annotations"][names.SIZES] = f"{PODS - CLAIM},{PODS}"
        job["spec"]["completionMode"] = "Indexed"
    return job


def sleeper(name: str, pods: int, accelerators: int) -> Json:
    """A job of `vision`, whose pods only sleep."""
    # a process without a handler that is the first of its pod would ignore SIGTERM
    program = "import signal, time; signal.signal(15, lambda *_: exit()); time.sleep(3600)"
    return job_of("vision", name, ["python", "-c", program], pods, accelerators)


def job_of(namespace: str, name: str, command: list[str], pods: int, accelerators: int) -> Json:
    """`accelerators` for each pod."""
    folders = {"torch": "/var/lib/torch", "shared": "/var/lib/shared"}
    container = {
        "name": "main",
        "image": "docker.io/library/cede-training:dev",
        "command": command,
        "resources": {
            "requests": {"cpu": "20m", "memory": "64Mi"},
            "limits": {names.GPU: str(accelerators)},
        },
        "volumeMounts": [{"name": key, "mountPath": f"/{key}"} for key in folders],
    }
    volumes = [{"name": key, "hostPath": {"path": path}} for key, path in folders.items()]
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    spec: Json = {"parallelism": pods, "completions": pods, "template": {"spec": pod}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
