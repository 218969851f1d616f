"""`cede status`: the teams, the take-backs, and what is wrong."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from cede.commands.command import DONE, Options
from cede.commands.connection import connected
from cede.commands.output import show
from cede.commands.watching import WATCH, Look, look
from cede.reading.reader import read_snapshot
from cede.report import status as report
from cede.report import text

if TYPE_CHECKING:
    from cede.kube.client import Client


async def status(chosen: Options, watch: WATCH = False) -> int:
    """Show what each team owns, uses, lends and borrows, and all problems."""
    async with connected(chosen) as client:
        await look(
            lambda: _read(client),
            lambda facts: show(chosen, asdict(facts), text.status_lines(facts)),
            report.without_ages,
            watch=watch,
        )
    return DONE


async def _read(client: "Client") -> Look[report.Status]:
    """What cannot be read is in the facts."""
    return Look(report.status(await read_snapshot(client), time.time()), [])
