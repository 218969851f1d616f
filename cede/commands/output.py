"""Prints what a command knows: for people, with colours on a terminal only, or for programs."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import yaml
from rich.console import Console
from rich.highlighter import RegexHighlighter
from rich.theme import Theme

from cede.commands.command import Options

CONTROLS = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (*range(32), *range(127, 160))
    if chr(code) not in "\n\t"
}
"""Characters that command a terminal. Messages, annotations and what pods report may hold them."""


class States(RegexHighlighter):
    """Colours the words that a reader looks for first."""

    base_style = "cede."
    highlights: ClassVar[Sequence[str]] = (
        r"(?P<heading>^[A-Z][A-Z -]+$)",
        r"(?P<good>\b(Running|Completed|yes|ok)\b)",
        r"(?P<pending>\b(Waiting|Pending|Asked|Released)\b)",
        r"(?P<bad>\b(Stopped|Failed|NO|WRONG)\b|^Needs attention$)",
    )


STYLES = {
    "cede.heading": "bold",
    "cede.good": "green",
    "cede.pending": "yellow",
    "cede.bad": "bold red",
}


def show(
    chosen: Options, facts: Any, lines: Iterable[str], object_names: Iterable[str] = ()
) -> None:
    """Prints the facts as JSON or YAML, or the names, or the lines as text."""
    match chosen.output:
        case "json":
            print(json.dumps(facts, indent=2, ensure_ascii=False), flush=True)
        case "yaml":
            # JSON knows no tuples and enums, which PyYAML would tag or refuse
            plain = json.loads(json.dumps(facts))
            print(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), end="", flush=True)
        case "name":
            print("".join(f"{name}\n" for name in object_names), end="", flush=True)
        case _:
            _show_text(map(printable, lines))


def warn(sentences: Iterable[str]) -> None:
    """Prints each as a line on standard error."""
    for sentence in sentences:
        print(f"cede: {printable(sentence)}", file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return text.translate(CONTROLS)


def _show_text(lines: Iterable[str]) -> None:
    """NO_COLOR is obeyed by rich. What is no terminal gets the lines as they are, of any width."""
    console = Console(highlighter=States(), theme=Theme(STYLES), emoji=False)
    if not console.is_terminal:
        print("\n".join(lines), flush=True)
        return
    for line in lines:
        console.print(line, soft_wrap=True, markup=False)
