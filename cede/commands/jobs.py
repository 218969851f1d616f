"""`cede jobs`: every job with its size, progress and priority, and why it is so."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from cede.api import kueue, names, objects
from cede.api.written_workload import WrittenWorkload
from cede.commands.command import DONE, EVERYWHERE, NAMESPACE, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.commands.watching import WATCH, Look, look
from cede.reading.reader import Reader, read_around
from cede.report.jobs import JobRow, job_table, rows, without_ages
from cede.report.text import table

if TYPE_CHECKING:
    from cede.kube.client import Client


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
        await look(
            lambda: read_jobs(client, place),
            lambda job_rows: _show(chosen, job_rows, place),
            without_ages,
            watch=watch,
        )
    return DONE


async def read_jobs(client: "Client", namespace: str) -> Look[list[JobRow]]:
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


def _show(chosen: Options, job_rows: list[JobRow], place: str) -> None:
    cells = job_table(job_rows, time.time(), everywhere=not place, wide=chosen.output == "wide")
    lines = table(cells) if job_rows else [f"no jobs in {place or 'any namespace'}"]
    names_ = [f"{row.kind.lower()}/{row.name}" for row in job_rows]
    show(chosen, [asdict(row) for row in job_rows], lines, names_)
