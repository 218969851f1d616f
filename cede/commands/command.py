"""What all commands share: their options, their errors as one line, and their exit codes."""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

FACTS = ("text", "json", "yaml")
"""The formats of a command that prints facts."""
ROWS = ("text", "wide", "json", "yaml", "name")
"""The formats of a command that prints one row for each object."""
DONE = 0
FAILED = 1
BAD_INPUT = 2
Command = Callable[..., Coroutine[Any, Any, int]]
KUBECONFIG = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="the kubeconfig file of the cluster"),
]
CONTEXT = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="the context of the kubeconfig to use"),
]
NAMESPACE = Annotated[
    str | None,
    typer.Option(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="the namespace of the team (default: that of the context)",
    ),
]
OUTPUT = Annotated[
    Literal["text", "wide", "json", "yaml", "name"] | None,
    typer.Option("-o", "--output", metavar="FORMAT", help="how to print (default: text)"),
]
JOB = Annotated[str, typer.Argument(metavar="JOB", help="the name of a batch/v1 Job")]
EVERYWHERE = Annotated[
    bool, typer.Option("-A", "--all-namespaces", help="in all namespaces", show_default=False)
]


class CommandFailed(typer.TyperException):
    """The line that the user reads, with the cure."""

    exit_code = FAILED


class BadInput(CommandFailed):
    """The same, for an argument that cannot be right."""

    exit_code = BAD_INPUT


def read_text(file: str) -> str:
    """The text of a file; - is standard input. Raises BadInput."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read: {error}") from error


@dataclass(frozen=True)
class Options:
    """What the user chose of the shared options; None is what kubectl would take."""

    kubeconfig: str | None = None
    context: str | None = None
    output: str = "text"


def as_command(function: Command, formats: Sequence[str] = FACTS) -> Callable[..., int]:
    """`function` as typer calls it: with the shared options, which may also stand before the
    command. Its first parameter gets them as Options."""

    def call(ctx: typer.Context, **values: Any) -> int:
        shared = _shared(ctx, values, formats)
        return _run(function(shared, **values))

    parameters = _parameters(function, formats)
    # typer reads the parameters of what it calls from these two
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = function.__doc__
    return call


def _run(command: Coroutine[Any, Any, int]) -> int:
    try:
        return asyncio.run(command)
    except BrokenPipeError:
        # the reader has ended, as in `cede status | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


# --- the shared options ---------------------------------------------------------------------------
def _parameters(function: Command, formats: Sequence[str]) -> list[inspect.Parameter]:
    """The context, the command's own, and the shared ones."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = {"kubeconfig": KUBECONFIG, "context": CONTEXT, "output": _output(formats)}
    return [
        _parameter("ctx", typer.Context, inspect.Parameter.empty),
        *(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own),
        *(_parameter(name, annotation, None) for name, annotation in shared.items()),
    ]


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _shared(ctx: typer.Context, values: dict[str, Any], formats: Sequence[str]) -> Options:
    """Takes the shared options out of `values`."""
    chosen = Options(
        _chosen(ctx, values, "kubeconfig"),
        _chosen(ctx, values, "context"),
        _chosen(ctx, values, "output") or formats[0],
    )
    if chosen.output not in formats:
        raise BadInput(f"-o {chosen.output} is not for this command: {_listed(formats)}")
    return chosen


def _output(formats: Sequence[str]) -> Any:
    """The type of `-o` with these formats; the first is the default."""
    description = f"{_listed(formats)} (default: {formats[0]})"
    option = typer.Option("-o", "--output", metavar="FORMAT", help=description)
    return Annotated[Literal[tuple(formats)] | None, option]


def _listed(formats: Sequence[str]) -> str:
    return f"{', '.join(formats[:-1])} or {formats[-1]}"


def _chosen(ctx: typer.Context, values: dict[str, Any], name: str) -> str | None:
    """The option after the command, or the one before it; it is removed from `values`."""
    value: str | None = values.pop(name)
    return ctx.find_root().params.get(name) if value is None else value
