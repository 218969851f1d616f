"""`cede jobs`: every job with its size, progress and priority, and why it is so."""

import time
from asyncio import sleep
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api import kueue, names, objects
from cede.api.written_workload import WrittenWorkload
from cede.commands.command import DONE, EVERYWHERE, NAMESPACE, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show, warn
from cede.kube.errors import ApiError
from cede.kube.failures import failure_sentence, may_pass
from cede.reading.reader import Reader, read_around
from cede.report.jobs import JobRow, job_table, rows, without_ages
from cede.report.text import table

if TYPE_CHECKING:
    from cede.kube.client import Client

WATCH_INTERVAL_S = 2.0
WATCH = Annotated[
    bool,
    typer.Option("-w", "--watch", help="look every 2 s, and print again on a change, until Ctrl-C"),
]


@dataclass(frozen=True)
class Look:
    """What was read at one time."""

    rows: list[JobRow]
    # sentences about what could not be read
    warnings: list[str]


async def jobs(
    chosen: Options,
    namespace: NAMESPACE = None,
    everywhere: EVERYWHERE = False,
    watch: WATCH = False,
) -> int:
    """Show the jobs that have not finished: size, progress, priority, and why.

    The columns STEP, LOSS and SAVED are what the runtime of an elastic job reported, and REPORTED
    says when that was. A job that is silent does not answer the scheduler.
    """
    place = "" if everywhere else namespace_of(chosen, namespace)
    async with connected(chosen) as client:
        shown = await read_jobs(client, place)
        warn(shown.warnings)
        _show(chosen, shown.rows, place)
        while watch:
            await sleep(WATCH_INTERVAL_S)
            current = await _read_again(client, place, shown)
            if current.warnings != shown.warnings:
                warn(current.warnings)
            if without_ages(current.rows) != without_ages(shown.rows):
                _show(chosen, current.rows, place)
            shown = current
    return DONE


async def read_jobs(client: "Client", namespace: str) -> Look:
    """The jobs of the namespace; of all namespaces if it is empty."""
    reader = Reader(client)
    all_jobs, _ = await client.list(
        objects.JOBS,
        kueue.Job,
        namespace=namespace,
        labels=names.QUEUE_NAME,
        unreadable=reader.unreadable,
    )
    workloads, _ = await client.list(
        objects.WORKLOADS, WrittenWorkload, namespace=namespace, unreadable=reader.unreadable
    )
    around = await read_around(reader, namespace)
    if namespace:
        # those of other teams were not read
        reader.incomplete.add(objects.WORKLOADS.plural)
    snapshot = reader.finished(around)
    result = rows(all_jobs, workloads, snapshot.cessions, time.time(), snapshot)
    return Look(result, reader.warnings())


async def _read_again(client: "Client", namespace: str, last: Look) -> Look:
    """The rows of the last look, and why, while the API server does not answer."""
    try:
        return await read_jobs(client, namespace)
    except ApiError as error:
        if not may_pass(error):
            raise
        return replace(last, warnings=[failure_sentence(error)])


def _show(chosen: Options, job_rows: list[JobRow], place: str) -> None:
    cells = job_table(job_rows, time.time(), everywhere=not place, wide=chosen.output == "wide")
    lines = table(cells) if job_rows else [f"no jobs in {place or 'any namespace'}"]
    names_ = [f"{row.kind.lower()}/{row.name}" for row in job_rows]
    show(chosen, [asdict(row) for row in job_rows], lines, names_)
