"""`--watch`: a command looks again and again, and prints what has changed."""

from asyncio import sleep
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Generic, TypeVar

import typer

from cede.commands.output import warn
from cede.kube.errors import ApiError
from cede.kube.failures import failure_sentence, may_pass

T = TypeVar("T")

INTERVAL_S = 2.0
WATCH = Annotated[
    bool,
    typer.Option("-w", "--watch", help="look every 2 s, and print again on a change, until Ctrl-C"),
]


@dataclass(frozen=True)
class Look(Generic[T]):
    """What was read at one time."""

    facts: T
    # sentences about what could not be read
    warnings: list[str]


async def look(
    read: Callable[[], Awaitable[Look[T]]],
    show: Callable[[T], None],
    without_ages: Callable[[T], object],
    *,
    watch: bool,
) -> T:
    """Reads and shows; with `watch`, again whenever what was read differs by more than durations.
    Returns what was read."""
    last = await read()
    warn(last.warnings)
    show(last.facts)
    while watch:
        await sleep(INTERVAL_S)
        current = await _read_again(read, last)
        if current.warnings != last.warnings:
            warn(current.warnings)
        if without_ages(current.facts) != without_ages(last.facts):
            show(current.facts)
        last = current
    return last.facts


async def _read_again(read: Callable[[], Awaitable[Look[T]]], last: Look[T]) -> Look[T]:
    """The facts of the last look, and why, while the API server does not answer."""
    try:
        return await read()
    except ApiError as error:
        if not may_pass(error):
            raise
        return replace(last, warnings=[failure_sentence(error)])
