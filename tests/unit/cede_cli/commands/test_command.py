"""The options that all commands share."""

from pathlib import Path

import pytest

from cede.cli import main
from cede.commands.command import FACTS, as_command


def test_the_shared_options_may_stand_before_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--kubeconfig", str(tmp_path / "none"), "--context", "x", "status"]) == 1
    assert "no cluster" in capsys.readouterr().err
    assert main(["-o", "json", "version"]) == 0
    assert capsys.readouterr().out.startswith("{")


def test_the_option_after_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-o", "json", "version", "-o", "yaml"]) == 0
    assert capsys.readouterr().out.startswith("version: ")


def test_a_format_before_a_command_that_does_not_have_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-o", "wide", "version"]) == 2
    error = "cede: -o wide is not for this command: text, json or yaml\n"
    assert capsys.readouterr().err == error


def test_a_reader_that_has_ended_is_no_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", broken)
    assert main(["version"]) == 0
    assert capfd.readouterr().err == ""


def test_a_command_keeps_its_own_parameters_and_help() -> None:
    async def greet(_: object, name: str = "you") -> int:
        """Say hello."""
        return len(name)

    command = as_command(greet, FACTS)
    assert list(command.__annotations__) == ["ctx", "name", "kubeconfig", "context", "output"]
    assert command.__doc__ == "Say hello."
