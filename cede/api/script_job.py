"""PURE. A Job that runs a training script: elastic with allowed sizes, else one pod."""

import re
from dataclasses import dataclass

from cede.api import durations, names, sizes
from cede.api.objects import JOBS, Json

MAX_NAME = 63
RUNTIMES = (names.IMAGE, names.INJECT)
"""Where the pods get the runtime from: see `names.RUNTIME`."""


@dataclass(frozen=True)
class ScriptJob:
    """What the user asked for. An empty text: the default."""

    namespace: str
    # its path inside the image
    script: str
    image: str
    arguments: tuple[str, ...] = ()
    # allowed numbers of pods; None: the Job is not elastic
    sizes: str | None = None
    # pods; by default the largest size
    desired: int | None = None
    # the script was written for torchrun, and is restarted in its pods at each new size
    restart: bool = False
    # one of RUNTIMES; by default the policy's
    runtime: str = ""
    # by default that of the script
    name: str = ""
    grace: str = ""
    priority_class: str = ""
    # of each pod
    gpus: int = 1


def manifest(job: ScriptJob) -> Json:
    """The Job; what it leaves out, the webhook adds. Raises ValueError, which begins with the name
    of the field that is wrong."""
    spec = _fixed_spec(job) if job.sizes is None else _elastic_spec(job, job.sizes)
    metadata: Json = {"name": _name(job), "namespace": job.namespace}
    if job.priority_class:
        metadata["labels"] = {names.PRIORITY_CLASS: job.priority_class}
    if annotations := _annotations(job):
        metadata["annotations"] = annotations
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


def _elastic_spec(job: ScriptJob, allowed: str) -> Json:
    size = _desired(allowed, job.desired)
    # a script's own options follow `--`, so that none is taken for one of the launcher
    launcher = ("--restart", "--") if job.restart else ()
    command = ("python", "-m", "elastic_runtime", *launcher, job.script, *job.arguments)
    counts = {"completionMode": "Indexed", "parallelism": size, "completions": size}
    return counts | {"template": _template(job, command)}


def _fixed_spec(job: ScriptJob) -> Json:
    """One pod, with a process for each GPU. Its first process gets SIGTERM when it is stopped."""
    if job.restart:
        raise ValueError(
            "restart: only a job with sizes is restarted at a new size: add sizes such as 2-8"
        )
    if job.desired is not None:
        raise ValueError("desired: a job without sizes has one pod: add sizes such as 2-8")
    launcher: tuple[str, ...] = ("python",)
    if job.gpus > 1:
        launcher = ("torchrun", "--standalone", f"--nproc-per-node={job.gpus}")
    return {"template": _template(job, (*launcher, job.script, *job.arguments))}


def _template(job: ScriptJob, command: tuple[str, ...]) -> Json:
    if job.gpus < 0:
        raise ValueError(f"gpus: {job.gpus} is less than 0: give the GPUs of each pod")
    container: Json = {"name": "train", "image": job.image, "command": list(command)}
    if job.gpus:
        container["resources"] = {"limits": {names.GPU: job.gpus}}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def _annotations(job: ScriptJob) -> dict[str, str]:
    if job.runtime not in ("", *RUNTIMES):
        raise ValueError(f"runtime: {job.runtime!r} is not known: use {' or '.join(RUNTIMES)}")
    try:
        if job.grace:
            durations.parse(job.grace)
    except ValueError as error:
        raise ValueError(f"grace: {error}") from error
    annotations = {
        names.SIZES: job.sizes or "",
        names.GRACE: job.grace,
        names.RUNTIME: job.runtime,
    }
    return {name: text for name, text in annotations.items() if text}


def _name(job: ScriptJob) -> str:
    file = job.script.rpartition("/")[2]
    name = job.name or re.sub("[^a-z0-9]+", "-", file.removesuffix(".py").lower()).strip("-")
    if len(name) > MAX_NAME or not re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", name):
        raise ValueError(
            f"name: {name!r} is no name of a Job: use at most {MAX_NAME} lower-case letters, "
            f"digits and `-`"
        )
    return name


def _desired(text: str, desired: int | None) -> int:
    try:
        allowed = sizes.parse(text)
    except ValueError as error:
        raise ValueError(f"sizes: {error}") from error
    if desired is not None and desired not in allowed:
        raise ValueError(f"desired: {desired} is not among the sizes {text}")
    return allowed[-1] if desired is None else desired
