"""`cede jobs`: every job with its size, progress and priority, and why it is so."""

import time
from asyncio import sleep
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api import kueue, names, objects
from cede.api.cession import Cession
from cede.commands.command import DONE, EVERYWHERE, NAMESPACE, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.report.jobs import JobRow, job_table, rows
from cede.report.text import table

if TYPE_CHECKING:
    from cede.kube.client import Client

WATCH_INTERVAL_S = 2.0
WATCH = Annotated[
    bool,
    typer.Option("-w", "--watch", help="look every 2 s, and print again on a change, until Ctrl-C"),
]


async def jobs(
    chosen: Options,
    namespace: NAMESPACE = None,
    everywhere: EVERYWHERE = False,
    watch: WATCH = False,
) -> int:
    """Show the jobs that have not finished: size, progress, priority, and why.

    The columns STEP and SAVED are what a job reported when it last gave pods to another one, and
    REPORTED says when that was. They are empty for a job that never did.
    """
    place = "" if everywhere else namespace_of(chosen, namespace)
    async with connected(chosen) as client:
        shown: list[JobRow] | None = None
        while True:
            current = await _read(client, place)
            if current != shown:
                _show(chosen, current, place)
                shown = current
            if not watch:
                return DONE
            await sleep(WATCH_INTERVAL_S)


async def _read(client: "Client", namespace: str) -> list[JobRow]:
    all_jobs, _ = await client.list(
        objects.JOBS, kueue.Job, namespace=namespace, labels=names.QUEUE_NAME
    )
    workloads, _ = await client.list(objects.WORKLOADS, kueue.Workload, namespace=namespace)
    cessions, _ = await client.list(objects.CESSIONS, Cession)
    return rows(all_jobs, workloads, cessions, time.time())


def _show(chosen: Options, job_rows: list[JobRow], place: str) -> None:
    cells = job_table(job_rows, time.time(), everywhere=not place, wide=chosen.output == "wide")
    lines = table(cells) if job_rows else [f"no jobs in {place or 'any namespace'}"]
    names_ = [f"{row.kind.lower()}/{row.name}" for row in job_rows]
    show(chosen, [asdict(row) for row in job_rows], lines, names_)
