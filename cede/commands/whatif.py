"""`cede whatif`: what would happen to whom, and why. The program `whatif` answers: it has the
controllers' own decisions, which are not in the wheel of this command (docs/decisions/0019)."""

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cede.commands.command import FAILED, NAMESPACE, BadInput, Options
from cede.commands.output import show

PROGRAM = "whatif"
FOLDER = Path(__file__).parents[2]
"""Where Cede's own packages are."""
START = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
"""`python -m` would look for the program in the current folder first, which may be anybody's."""
NOT_HERE = (
    "the program that answers is not installed here: run this command in a checkout of Cede, or "
    "`python -m whatif` in the image of its controllers"
)
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
    if not _is_installed():
        raise BadInput(NOT_HERE)
    options |= {"kubeconfig": chosen.kubeconfig, "context": chosen.context}
    given = [f"--{name}={value}" for name, value in options.items() if value is not None]
    python = (sys.executable, "-P", "-c", START, str(FOLDER), PROGRAM)
    command = (*python, question, *given, f"--output={chosen.output}")
    # a name that begins with a hyphen is no option
    process = await asyncio.create_subprocess_exec(
        *command, *(["--", *words] if words else []), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    text = printed.decode()
    if chosen.output == "text" and text:
        show(chosen, None, text.splitlines())
    else:
        print(text, end="", flush=True)
    code = process.returncode
    # negative if a signal ended it
    return FAILED if code is None or code < 0 else code


def _is_installed() -> bool:
    """Whether Cede's own program stands beside this command: others may have one of its name."""
    spec = find_spec(PROGRAM)
    return spec is not None and spec.origin == str(FOLDER / PROGRAM / "__init__.py")
