"""`cede submit`: an elastic job from a training script, without writing YAML."""

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Literal

import typer

from cede.api import durations, names, sizes
from cede.api.objects import JOBS, Json
from cede.commands.command import DONE, NAMESPACE, BadInput, CommandFailed, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.kube.errors import AlreadyExists

MAX_NAME = 63
SCRIPT = Annotated[str, typer.Argument(metavar="SCRIPT", help="its path inside the image")]
ARGUMENTS = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT", help="for the script; after `--` if one begins with `-`"),
]
SIZES = Annotated[
    str,
    typer.Option("--sizes", metavar="SIZES", help="allowed numbers of pods: 2-8, 2-8/2 or 1,2,4,8"),
]
IMAGE = Annotated[
    str, typer.Option("--image", metavar="IMAGE", help="an image with torch, Cede and the script")
]
NAME = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="of the Job (default: that of the script)"),
]
DESIRED = Annotated[
    int | None,
    typer.Option("--desired", metavar="SIZE", help="how many pods you want (default: the most)"),
]
GRACE = Annotated[
    str | None,
    typer.Option(
        "--grace",
        metavar="TIME",
        help="how long it may take to save, such as 90s (default: the policy's)",
    ),
]
PRIORITY = Annotated[
    str | None,
    typer.Option(
        "--priority", metavar="CLASS", help="its priority class (default: the policy's default)"
    ),
]
GPUS = Annotated[
    int,
    typer.Option(
        "--gpus", metavar="COUNT", min=0, help="for each pod (default: 1)", show_default=False
    ),
]
DRY_RUN = Annotated[
    Literal["none", "client"],
    typer.Option(
        "--dry-run",
        metavar="client",
        help="create nothing; with `-o yaml` print what would be",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Request:
    """What the user asked for; `manifest` makes the Job of it."""

    namespace: str
    name: str
    image: str
    command: tuple[str, ...]
    sizes: str
    # pods
    desired: int
    grace: str
    priority_class: str
    gpus: int


async def submit(
    chosen: Options,
    script: SCRIPT,
    sizes: SIZES,
    image: IMAGE,
    arguments: ARGUMENTS = None,
    name: NAME = None,
    desired: DESIRED = None,
    grace: GRACE = None,
    priority: PRIORITY = None,
    gpus: GPUS = 1,
    namespace: NAMESPACE = None,
    dry_run: DRY_RUN = "none",
) -> int:
    """Create an elastic Job that runs a training script.

    For all that has no option here, such as volumes and environment variables: print it with
    `--dry-run=client -o yaml`, edit it, and use `kubectl apply`.
    """
    request = Request(
        namespace=namespace_of(chosen, namespace),
        name=_name(script, name),
        image=image,
        command=("python", "-m", "elastic_runtime", script, *(arguments or ())),
        sizes=sizes,
        desired=_desired(sizes, desired),
        grace=_grace(grace),
        priority_class=priority or "",
        gpus=gpus,
    )
    job = manifest(request)
    if dry_run == "none":
        job = await _create(chosen, job, request)
    done = "created" if dry_run == "none" else "created (dry run)"
    show(
        chosen, job, [f"job/{request.name} {done} in {request.namespace}"], [f"job/{request.name}"]
    )
    return DONE


async def _create(chosen: Options, job: Json, request: Request) -> Json:
    """The Job as the API server has it."""
    async with connected(chosen) as client:
        try:
            return await client.create(JOBS, job, namespace=request.namespace)
        except AlreadyExists as error:
            raise CommandFailed(
                f"there is a Job {request.name} in namespace {request.namespace} already: delete "
                f"it, or use another --name"
            ) from error


def manifest(request: Request) -> Json:
    """The elastic Job; what it leaves out, the webhook adds."""
    annotations = {names.SIZES: request.sizes}
    if request.grace:
        annotations[names.GRACE] = request.grace
    metadata: Json = {"name": request.name, "namespace": request.namespace}
    if request.priority_class:
        metadata["labels"] = {names.PRIORITY_CLASS: request.priority_class}
    metadata["annotations"] = annotations
    container: Json = {"name": "train", "image": request.image, "command": list(request.command)}
    if request.gpus:
        container["resources"] = {"limits": {names.GPU: request.gpus}}
    spec: Json = {
        "completionMode": "Indexed",
        "parallelism": request.desired,
        "completions": request.desired,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": spec}


# --- what the user may write ----------------------------------------------------------------------
def _name(script: str, name: str | None) -> str:
    chosen = name or re.sub("[^a-z0-9]+", "-", PurePath(script).stem.lower()).strip("-")
    if len(chosen) > MAX_NAME or not re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", chosen):
        raise BadInput(
            f"--name: {chosen!r} is no name of a Job: use at most {MAX_NAME} lower-case letters, "
            f"digits and `-`"
        )
    return chosen


def _desired(text: str, desired: int | None) -> int:
    try:
        allowed = sizes.parse(text)
    except ValueError as error:
        raise BadInput(f"--sizes: {error}") from error
    if desired is not None and desired not in allowed:
        raise BadInput(f"--desired: {desired} is not among the sizes {text}")
    return allowed[-1] if desired is None else desired


def _grace(text: str | None) -> str:
    if text is None:
        return ""
    try:
        durations.parse(text)
    except ValueError as error:
        raise BadInput(f"--grace: {error}") from error
    return text
