"""`cede status`: the teams, the take-backs, and what is wrong."""

import time
from dataclasses import asdict

from cede.commands.command import DONE, Options
from cede.commands.connection import connected
from cede.commands.output import show
from cede.reading.reader import read_snapshot
from cede.report import status as report
from cede.report import text


async def status(chosen: Options) -> int:
    """Show what each team owns, uses, lends and borrows, and all problems."""
    async with connected(chosen) as client:
        facts = report.status(await read_snapshot(client), time.time())
    show(chosen, asdict(facts), text.status_lines(facts))
    return DONE
