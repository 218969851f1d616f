"""`cede history`: the take-backs, and how long each of their stages took."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api import durations
from cede.api.cession import Cession
from cede.api.objects import CESSIONS
from cede.commands.command import DONE, BadInput, Options
from cede.commands.connection import connected
from cede.commands.output import show
from cede.commands.watching import WATCH, Look, look
from cede.kube.errors import Unreadable
from cede.kube.failures import failure_sentence
from cede.report.history import Take, history_table, takes
from cede.report.text import table

if TYPE_CHECKING:
    from cede.kube.client import Client

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


async def history(
    chosen: Options, namespace: TEAM = None, since: SINCE = None, watch: WATCH = False
) -> int:
    """Show the take-backs, the oldest first, with the seconds from their start to each stage."""
    within_s = _seconds(since) if since else None
    async with connected(chosen) as client:
        await look(
            lambda: _read(client, namespace or "", within_s),
            lambda history: _show(chosen, history),
            # times in it are times of day
            lambda history: history,
            watch=watch,
        )
    return DONE


async def _read(client: "Client", namespace: str, within_s: int | None) -> Look[list[Take]]:
    errors = list[Unreadable]()
    cessions, _ = await client.list(CESSIONS, Cession, unreadable=errors)
    earliest = 0.0 if within_s is None else time.time() - within_s
    return Look(takes(cessions, namespace, earliest), list(map(failure_sentence, errors)))


def _show(chosen: Options, history: list[Take]) -> None:
    cells = history_table(history, wide=chosen.output == "wide")
    lines = table(cells) if history else ["no Cessions"]
    object_names = [f"cession/{take.name}" for take in history]
    show(chosen, [asdict(take) for take in history], lines, object_names)


def _seconds(text: str) -> int:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise BadInput(f"--since: {error}") from error
