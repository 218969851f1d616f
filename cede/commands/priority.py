"""`cede priority`: another priority class for a job."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api import kueue, names
from cede.api.objects import JOBS, PRIORITY_CLASSES, Meta
from cede.commands.command import DONE, JOB, NAMESPACE, BadInput, Options
from cede.commands.connection import connected, namespace_of, read_job
from cede.commands.output import show

if TYPE_CHECKING:
    from cede.kube.client import Client

CLASS = Annotated[
    str, typer.Argument(metavar="CLASS", help="a WorkloadPriorityClass, as in the ClusterPolicy")
]


@dataclass(frozen=True, slots=True)
class PriorityClass:
    metadata: Meta
    value: int = 0


async def priority(
    chosen: Options, name: JOB, priority_class: CLASS, namespace: NAMESPACE = None
) -> int:
    """Set the priority class of a job. Whoever may patch the Job may do it, up to its team's limit.

    A job that waits is ordered by its new class, and may take capacity from jobs of lower classes
    of its team. A running job may get a lower class and then gives before others; the webhook
    refuses a higher one.
    """
    key = (namespace_of(chosen, namespace), name)
    async with connected(chosen) as client:
        job = await read_job(client, key)
        weights = await _weights(client)
        if priority_class not in weights:
            known = ", ".join(sorted(weights, key=weights.__getitem__)) or "none"
            raise BadInput(f"there is no priority class {priority_class}: use one of {known}")
        label = {"metadata": {"labels": {names.PRIORITY_CLASS: priority_class}}}
        await client.patch(JOBS, key, label)
    before = job.metadata.labels.get(names.PRIORITY_CLASS, "")
    facts = {
        "namespace": key[0],
        "name": name,
        "priority_class": priority_class,
        "priority": weights[priority_class],
        "priority_class_before": before,
    }
    show(chosen, facts, [_sentence(job, priority_class)])
    return DONE


async def _weights(client: "Client") -> dict[str, int]:
    classes, _ = await client.list(PRIORITY_CLASSES, PriorityClass)
    return {item.metadata.name: item.value for item in classes}


def _sentence(job: kueue.Job, priority_class: str) -> str:
    """What has changed, and what it may cause."""
    name = job.metadata.name
    before = job.metadata.labels.get(names.PRIORITY_CLASS, "")
    if priority_class == before:
        return f"{name} has priority class {priority_class} already"
    change = f"{name} has priority class {priority_class} now"
    if before:
        change += f", before {before}"
    if job.spec.suspend:
        return (
            f"{change}: it waits by this class, and may take capacity from jobs of its team that "
            f"have a lower one"
        )
    return f"{change}: it gives before jobs of its team that have a higher one"
