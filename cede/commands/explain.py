"""`cede explain`: why a job waits, or what happened to it."""

import time
from dataclasses import asdict
from typing import Annotated

import typer

from cede.commands.command import DONE, FAILED, NAMESPACE, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show, warn
from cede.reading.job import read_explained
from cede.report import explanation, text

NAME = Annotated[str, typer.Argument(metavar="WORKLOAD|JOB", help="a Job or a Workload")]


async def explain(chosen: Options, name: NAME, namespace: NAMESPACE = None) -> int:
    """Show why a job waits, or what happened to it."""
    async with connected(chosen) as client:
        key = (namespace_of(chosen, namespace), name)
        snapshot, warnings = await read_explained(client, key)
    warn(warnings)
    facts = explanation.explain(key, snapshot, time.time())
    show(chosen, asdict(facts), text.explanation_lines(facts))
    return DONE if facts.state != "Unknown" else FAILED
