"""`cede advise`: what the ledger's history suggests about allocations."""

from typing import Annotated

import msgspec
import typer

from cede.api.allocation import ComputeAllocation
from cede.api.objects import ALLOCATIONS
from cede.api.use_history import parse_history
from cede.commands.command import DONE, BadInput, Options, read_text
from cede.commands.connection import connected
from cede.commands.output import show, warn
from cede.reading.reader import Reader
from cede.report import advice

FILE = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="the history, as `python -m ledger history` prints it; - is standard input",
    ),
]


async def advise(chosen: Options, file: FILE) -> int:
    """Show allocations that are never used, always borrow, or are lent most of the time.

    With the figures, and the period that they rest on. Fewer than 7 days of a team are no ground
    for advice. Budgets that are used are shown too, as the allocations report them.
    """
    try:
        history = parse_history(read_text(file))
    except ValueError as error:
        raise BadInput(f"{file}: {error}") from error
    async with connected(chosen) as client:
        reader = Reader(client)
        allocations = await reader.all(ALLOCATIONS, ComputeAllocation)
    warn(reader.warnings())
    is_known = ALLOCATIONS.plural not in reader.incomplete
    facts = advice.advise(history, allocations if is_known else None)
    show(chosen, msgspec.to_builtins(facts), advice.advice_lines(facts))
    return DONE
