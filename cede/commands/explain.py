"""`cede explain`: why a job waits, or what happened to it."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api.objects import Key
from cede.commands.command import DONE, FAILED, NAMESPACE, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.commands.watching import WATCH, Look, look
from cede.reading.job import read_explained
from cede.report import explanation, text

if TYPE_CHECKING:
    from cede.kube.client import Client

NAME = Annotated[str, typer.Argument(metavar="WORKLOAD|JOB", help="a Job or a Workload")]


async def explain(
    chosen: Options, name: NAME, namespace: NAMESPACE = None, watch: WATCH = False
) -> int:
    """Show why a job waits, or what happened to it."""
    async with connected(chosen) as client:
        key = (namespace_of(chosen, namespace), name)
        facts = await look(
            lambda: _read(client, key),
            lambda facts: show(chosen, asdict(facts), text.explanation_lines(facts)),
            explanation.without_ages,
            watch=watch,
        )
    return DONE if facts.state != "Unknown" else FAILED


async def _read(client: "Client", key: Key) -> Look[explanation.Explanation]:
    snapshot, warnings = await read_explained(client, key)
    return Look(explanation.explain(key, snapshot, time.time()), warnings)
