"""`cede whatif`: what would happen to whom, and why. The program `whatif` answers: it has the
controllers' own decisions, which are not in the wheel of this command (docs/decisions/0019)."""

from typing import Annotated

import typer

from cede.commands.command import NAMESPACE, BadInput, Options
from cede.commands.output import show
from cede.prediction import NOT_HERE, is_installed, predict

FILE = Annotated[
    str,
    typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON; - is standard input"),
]
SNAPSHOT = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="a file that `python -m scheduler --dump FILE` wrote (default: the cluster)",
    ),
]
NODES = Annotated[list[str], typer.Argument(metavar="NODE", help="the nodes to drain")]


async def submit(
    chosen: Options, filename: FILE, namespace: NAMESPACE = None, snapshot: SNAPSHOT = None
) -> int:
    """Predict what would happen if a Job were submitted. Nothing is created.

    For the options of `cede submit`: print its Job with `--dry-run=client -o yaml`, and give it to
    this command with `-f -`.
    """
    return await _ask(chosen, "submit", filename=filename, namespace=namespace, snapshot=snapshot)


async def allocation(chosen: Options, filename: FILE, snapshot: SNAPSHOT = None) -> int:
    """Predict what would happen if a ComputeAllocation were applied. Nothing is written."""
    return await _ask(chosen, "allocation", filename=filename, snapshot=snapshot)


async def drain(chosen: Options, nodes: NODES, snapshot: SNAPSHOT = None) -> int:
    """Predict what would happen if nodes were drained. Nothing is cordoned or evicted."""
    return await _ask(chosen, "drain", *nodes, snapshot=snapshot)


async def _ask(chosen: Options, question: str, *words: str, **options: str | None) -> int:
    """Runs the program. Its exit codes are those of this command."""
    if not is_installed():
        raise BadInput(NOT_HERE)
    shared = {
        "kubeconfig": chosen.kubeconfig,
        "context": chosen.context,
        "output": chosen.output,
    }
    answer = await predict(question, options | shared, words)
    if chosen.output == "text" and answer.text:
        show(chosen, None, answer.text.splitlines())
    else:
        print(answer.text, end="", flush=True)
    return answer.code
