"""What is printed: formats for programs, and colours on a terminal only."""

import re
from enum import StrEnum

import pytest

from cede.commands.command import Options
from cede.commands.output import show, warn


class Phase(StrEnum):
    DONE = "Done"


FACTS = {"name": "gpt", "phases": (Phase.DONE,), "why": "8 → 4"}
LINES = ["NAME  STATE", "gpt   Running", "x     " + "long " * 60]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        pytest.param("yaml", "name: gpt\nphases:\n- Done\nwhy: 8 → 4\n", id="yaml"),
        pytest.param("name", "job/gpt\n", id="name"),
        pytest.param("wide", "\n".join(LINES) + "\n", id="wide"),
        pytest.param("text", "\n".join(LINES) + "\n", id="text that is never wrapped"),
    ],
)
def test_formats(output: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(Options(output=output), FACTS, LINES, ["job/gpt"])
    assert capsys.readouterr().out == text


def test_no_object_has_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    show(Options(output="name"), [], ["no jobs"], [])
    assert capsys.readouterr().out == ""


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    show(Options(output="json"), FACTS, LINES)
    assert '"why": "8 → 4"' in capsys.readouterr().out


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """By its variables of the environment."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("text", ["8 [bold] pods", "team:key:x", "[/]"])
def test_what_a_terminal_shows_is_what_is_there(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Options(), FACTS, [text])
    assert re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out) == f"{text}\n"


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "\x1b]0;title\x07", "\x9b2J", "over\rwritten"])
def test_what_the_cluster_holds_commands_no_terminal(
    text: str, terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("NO_COLOR", "1")
    show(Options(), FACTS, [text])
    warn([text])
    printed, errors = capsys.readouterr()
    for line in (printed, errors.removeprefix("cede: ")):
        assert line.endswith("\n")
        assert not re.search("[\x00-\x1f\x7f-\x9f]", line[:-1])
        assert "\N{REPLACEMENT CHARACTER}" in line


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_colours(capsys: pytest.CaptureFixture[str]) -> None:
    show(Options(), FACTS, LINES)
    text = capsys.readouterr().out
    assert "\x1b[32mRunning\x1b[0m" in text
    assert len(text.splitlines()) == 3


def test_no_color_is_obeyed(
    terminal: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.setenv("NO_COLOR", "1")
    show(Options(), FACTS, LINES)
    assert "\x1b[3" not in capsys.readouterr().out
