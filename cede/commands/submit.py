"""`cede submit`: a Job from a training script, without writing YAML."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cede.api.objects import JOBS, Json
from cede.api.script_job import ScriptJob, manifest
from cede.commands.command import DONE, NAMESPACE, BadInput, CommandFailed, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.kube.errors import AlreadyExists

if TYPE_CHECKING:
    from cede.kube.client import Client

SCRIPT = Annotated[str, typer.Argument(metavar="SCRIPT", help="its path inside the image")]
ARGUMENTS = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGUMENT", help="for the script; after `--` if one begins with `-`"),
]
IMAGE = Annotated[
    str, typer.Option("--image", metavar="IMAGE", help="an image with the script and torch")
]
SIZES = Annotated[
    str | None,
    typer.Option(
        "--sizes",
        metavar="SIZES",
        help="allowed numbers of pods: 2-8, 2-8/2 or 1,2,4,8 (default: one pod, not elastic)",
    ),
]
RESTART = Annotated[
    bool,
    typer.Option(
        "--restart",
        help="the script was written for torchrun: restart it in its pods at each new size",
        show_default=False,
    ),
]
RUNTIME = Annotated[
    Literal["image", "inject"] | None,
    typer.Option(
        "--runtime",
        metavar="SOURCE",
        help="of Cede in the pods: `image` if the image has it, `inject` if Cede is to bring it "
        "(default: the policy's)",
    ),
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


async def submit(
    chosen: Options,
    script: SCRIPT,
    image: IMAGE,
    arguments: ARGUMENTS = None,
    sizes: SIZES = None,
    restart: RESTART = False,
    runtime: RUNTIME = None,
    name: NAME = None,
    desired: DESIRED = None,
    grace: GRACE = None,
    priority: PRIORITY = None,
    gpus: GPUS = 1,
    namespace: NAMESPACE = None,
    dry_run: DRY_RUN = "none",
) -> int:
    """Create a Job that runs a training script, one process for each GPU.

    With `--sizes` the Job is elastic: its script uses Cede's Session, or was written for torchrun
    and runs under `--restart`. Without `--sizes` any script runs in one pod, which gets SIGTERM and
    time to save when it is stopped.

    For all that has no option here, such as volumes and environment variables: print it with
    `--dry-run=client -o yaml`, edit it, and use `kubectl apply`.
    """
    request = ScriptJob(
        namespace=namespace_of(chosen, namespace),
        script=script,
        image=image,
        arguments=tuple(arguments or ()),
        sizes=sizes,
        desired=desired,
        restart=restart,
        runtime=runtime or "",
        name=name or "",
        grace=grace or "",
        priority_class=priority or "",
        gpus=gpus,
    )
    try:
        job = manifest(request)
    except ValueError as error:
        raise BadInput(f"--{error}") from error
    if dry_run == "none":
        async with connected(chosen) as client:
            job = await create(client, job)
    job_name = f"job/{job['metadata']['name']}"
    done = "created" if dry_run == "none" else "created (dry run)"
    show(chosen, job, [f"{job_name} {done} in {request.namespace}"], [job_name])
    return DONE


async def create(client: "Client", job: Json) -> Json:
    """The Job as the API server has it."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    try:
        return await client.create(JOBS, job, namespace=namespace)
    except AlreadyExists as error:
        raise CommandFailed(
            f"there is a Job {name} in namespace {namespace} already: delete it, or use another "
            f"name"
        ) from error
