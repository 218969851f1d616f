"""`cede history`: the take-backs, and how long each of their stages took."""

import time
from dataclasses import asdict
from typing import Annotated

import typer

from cede.api import durations
from cede.api.cession import Cession
from cede.api.objects import CESSIONS
from cede.commands.command import DONE, BadInput, Options
from cede.commands.connection import connected
from cede.commands.output import show, warn
from cede.kube.errors import Unreadable
from cede.kube.failures import failure_sentence
from cede.report.history import history_table, takes
from cede.report.text import table

TEAM = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="only those in which a job of this namespace needs or gives capacity (default: all)",
    ),
]
SINCE = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="only those that began within this time, such as 90s or 1h"
    ),
]


async def history(chosen: Options, namespace: TEAM = None, since: SINCE = None) -> int:
    """Show the take-backs, the oldest first, with the seconds from their start to each stage."""
    now = time.time()
    earliest = now - _seconds(since) if since else 0.0
    errors = list[Unreadable]()
    async with connected(chosen) as client:
        cessions, _ = await client.list(CESSIONS, Cession, unreadable=errors)
    warn(map(failure_sentence, errors))
    rows = takes(cessions, namespace or "", earliest)
    cells = history_table(rows, wide=chosen.output == "wide")
    lines = table(cells) if rows else ["no Cessions"]
    object_names = [f"cession/{row.name}" for row in rows]
    show(chosen, [asdict(row) for row in rows], lines, object_names)
    return DONE


def _seconds(text: str) -> int:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise BadInput(f"--since: {error}") from error
