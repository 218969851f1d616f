"""`cede resize`: the size that the user wants for an elastic job."""

from typing import Annotated

import typer

from cede.api import names, sizes
from cede.api.kueue import Job
from cede.api.objects import JOBS
from cede.commands.command import DONE, JOB, NAMESPACE, BadInput, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.commands.read import read_job

SIZE = Annotated[int, typer.Argument(metavar="SIZE", help="one of the job's allowed sizes")]


async def resize(chosen: Options, name: JOB, size: SIZE, namespace: NAMESPACE = None) -> int:
    """Set the desired size of an elastic job: it never grows beyond that.

    The scheduler resizes the job between two of its steps. A smaller desired size takes no pod from
    a running job: it gives them when another job needs them.
    """
    key = (namespace_of(chosen, namespace), name)
    async with connected(chosen) as client:
        job = await read_job(client, key)
        _check(job, size)
        # `parallelism` would be what the job has already, if it shrank to this size before
        note = {"metadata": {"annotations": {names.DESIRED_SIZE: str(size)}}}
        await client.patch(JOBS, key, note)
    before = sizes.parse_one(job.metadata.annotations.get(names.DESIRED_SIZE, ""))
    facts = {
        "namespace": key[0],
        "name": name,
        "desired": size,
        "desired_before": before,
        "size": job.spec.parallelism,
    }
    show(chosen, facts, [_sentence(job, size)])
    return DONE


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


def _sentence(job: Job, size: int) -> str:
    present = job.spec.parallelism
    sentence = f"{job.metadata.name} wants {size} pods now and has {present}"
    if size > present:
        return f"{sentence}: it grows when capacity is idle"
    if size < present:
        return f"{sentence}: it keeps them until another job needs them"
    return sentence
