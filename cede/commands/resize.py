"""`cede resize`: the size that the user wants for an elastic job."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api import names, sizes
from cede.api.kueue import Job
from cede.api.objects import JOBS, Key
from cede.commands.command import DONE, JOB, NAMESPACE, BadInput, Options
from cede.commands.connection import connected, namespace_of, read_job
from cede.commands.output import show

if TYPE_CHECKING:
    from cede.kube.client import Client

SIZE = Annotated[int, typer.Argument(metavar="SIZE", help="one of the job's allowed sizes")]


@dataclass(frozen=True)
class SizeChange:
    """An elastic Job whose desired size was set."""

    namespace: str
    name: str
    # pods that its user wants, now and before; None: it had no such note
    desired: int
    desired_before: int | None
    # pods that it has
    size: int


async def resize(chosen: Options, name: JOB, size: SIZE, namespace: NAMESPACE = None) -> int:
    """Set the desired size of an elastic job: it never grows beyond that.

    The scheduler resizes the job between two of its steps. A smaller desired size takes no pod from
    a running job: it gives them when another job needs them.
    """
    key = (namespace_of(chosen, namespace), name)
    async with connected(chosen) as client:
        resized = await set_desired_size(client, key, size)
    show(chosen, asdict(resized), [_sentence(resized)])
    return DONE


async def set_desired_size(client: "Client", key: Key, size: int) -> SizeChange:
    """Raises BadInput for a size that the job cannot have."""
    job = await read_job(client, key)
    _check(job, size)
    # `parallelism` would be what the job has already, if it shrank to this size before
    note = {"metadata": {"annotations": {names.DESIRED_SIZE: str(size)}}}
    await client.patch(JOBS, key, note)
    before = sizes.parse_one(job.metadata.annotations.get(names.DESIRED_SIZE, ""))
    return SizeChange(*key, desired=size, desired_before=before, size=job.spec.parallelism)


def _check(job: Job, size: int) -> None:
    """Raises BadInput for a size that the job cannot have."""
    annotations = job.metadata.annotations
    if names.SIZES not in annotations:
        raise BadInput(
            f"{job.metadata.name} is not elastic: only a Job with the annotation {names.SIZES} "
            f"changes its size"
        )
    try:
        allowed = sizes.parse(annotations[names.SIZES])
    except ValueError as error:
        raise BadInput(f"the sizes of {job.metadata.name} are not valid: {error}") from error
    if size not in allowed:
        raise BadInput(
            f"{size} is not an allowed size of {job.metadata.name}: its {names.SIZES} is "
            f"{annotations[names.SIZES]}"
        )


def _sentence(job: SizeChange) -> str:
    sentence = f"{job.name} wants {job.desired} pods now and has {job.size}"
    if job.desired > job.size:
        return f"{sentence}: it grows when capacity is idle"
    if job.desired < job.size:
        return f"{sentence}: it keeps them until another job needs them"
    return sentence
