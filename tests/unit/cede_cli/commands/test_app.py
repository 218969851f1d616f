"""The command line as a whole: help, completion, bad input, exit codes."""

import os
import subprocess
import sys

import pytest

from cede.cli import main
from cede.commands.app import COMMANDS
from tests.paths import TREE

WIDE = {**os.environ, "COLUMNS": "120"}


def cede(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cede.cli", *words],
        cwd=TREE,
        env=WIDE | environment,
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("stats", "No such command 'stats'. Did you mean 'status'?", id="command"),
        pytest.param("status --nope", "No such option: --nope", id="option"),
        pytest.param("status --kubeconfig", "requires an argument", id="no value"),
        pytest.param("explain", "Missing argument 'WORKLOAD|JOB'", id="no argument"),
        pytest.param("explain a b", "unexpected extra argument", id="too many arguments"),
        pytest.param("status -o xml", "'xml' is not one of 'text', 'json', 'yaml'", id="format"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    text, error = capsys.readouterr()
    assert (text, len(error.splitlines())) == ("", 1)
    assert message in error


def test_help_has_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for command, _ in COMMANDS:
        assert f" {command.__name__} " in text
    assert "Exit codes: 0 when it is done; 1 when it failed" in text


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    text, error = capsys.readouterr()
    assert "Usage: cede" in text + error
    assert "cede:" not in error


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(shell: str) -> None:
    """The variables are those that the script of `--show-completion` sets."""
    variables = {"COMP_WORDS": "cede sta", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "cede sta"}
    variables["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    completed = cede(_CEDE_COMPLETE=f"complete_{shell}", **variables)
    assert "status" in completed.stdout
    assert "explain" not in completed.stdout


def test_help_and_completion_import_no_client() -> None:
    """Its packages take a second to import, and a shell completes at every press of a key."""
    script = "import sys, cede.commands.app; print({'kubernetes', 'aiohttp'} & set(sys.modules))"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, cwd=TREE, text=True, capture_output=True, check=True)
    assert loaded.stdout == "set()\n"
