"""The page of the command `cede`, from its help."""

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import typer.core
import typer.main

from cede.commands.app import EXIT_CODES, app

WIDTH = 100
SHARED = ("kubeconfig", "context")


def group() -> typer.core.TyperGroup:
    command = typer.main.get_command(app)
    assert isinstance(command, typer.core.TyperGroup)
    return command


def page() -> str:
    """Options of all commands, exit codes, and then each command."""
    shared = [parameter for parameter in group().params if parameter.name != "output"]
    sections = [_wrapped(EXIT_CODES), "\n".join(_rows(shared))]
    for name, command in _commands(group()):
        sections.append("\n".join(_section(name, command)))
    return "\n\n".join(sections)


def _commands(parent: typer.core.TyperGroup, words: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its words, such as `whatif submit`."""
    for name, command in parent.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from _commands(command, f"{words}{name} ")
        else:
            yield f"{words}{name}", command


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [_argument(entry) for entry in command.params if _is_argument(entry)]
    yield f"## `{' '.join(['cede', name, *arguments])}`\n"
    paragraphs = inspect.cleandoc(command.help).split("\n\n")
    yield "\n\n".join(_wrapped(paragraph) for paragraph in paragraphs)
    yield ""
    yield from _rows([entry for entry in command.params if entry.name not in SHARED])


def _is_argument(parameter: Any) -> bool:
    return isinstance(parameter, typer.core.TyperArgument)


def _argument(parameter: Any) -> str:
    text = parameter.metavar + ("..." if parameter.nargs == -1 else "")
    return text if parameter.required else f"[{text}]"


def _rows(parameters: list[Any]) -> Iterator[str]:
    yield "| argument or option | meaning |"
    yield "|---|---|"
    for parameter in parameters:
        words = parameter.metavar if _is_argument(parameter) else ", ".join(parameter.opts)
        takes_value = not _is_argument(parameter) and not parameter.is_flag
        if takes_value:
            words += f" {parameter.metavar}"
        needed = "; needed" if parameter.required and takes_value else ""
        text = f"| `{words}` | {parameter.help}{needed} |"
        yield text.replace("|JOB`", "\\|JOB`")


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False)
