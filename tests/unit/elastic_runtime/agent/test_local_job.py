"""Requests to a job of this machine."""

from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client, local_job


def test_a_second_job_in_one_directory_is_refused_and_the_first_keeps_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("secret")
    assert local_job._lock(tmp_path)
    assert local_job.run(1, 0, tmp_path, ["train.py"], {}, on_terminal=False) == 2
    assert f"a job of {tmp_path} runs already" in capsys.readouterr().err
    assert (tmp_path / "key").read_text() == "secret"


def test_request_without_a_job_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local_job.request(tmp_path, 0, "GET", contract.STATUS_PATH, b"", bytes.decode) == 1
    assert f"{tmp_path}/key is missing; start one with --local" in capsys.readouterr().err


def test_request_that_nobody_answers_names_the_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("secret")
    assert local_job.request(tmp_path, 1, "GET", contract.STATUS_PATH, b"", bytes.decode) == 1
    output = capsys.readouterr()
    assert "no answer on port 1" in output.err
    assert "check that the job runs" in output.err
    assert output.out == ""


def test_request_that_the_job_refuses_shows_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> bytes:
        raise control_client.Refused(400, "size is 1: the smallest allowed is 2, or 0 to stop")

    (tmp_path / "key").write_text("secret")
    monkeypatch.setattr(control_client, "call", refuse)
    assert local_job.request(tmp_path, 1, "PUT", contract.SIZE_PATH, b"", bytes.decode) == 1
    expected = "elastic_runtime: the job refused it: size is 1: the smallest allowed is 2"
    assert capsys.readouterr().err.startswith(expected)


def request_state(directory: Path, monkeypatch: pytest.MonkeyPatch, reply: bytes) -> int:
    """Ask a job that replies this for its state. Returns the exit code."""

    async def answer(*_: object) -> bytes:
        return reply

    def show(reply: bytes) -> str:
        return contract.decode_status(reply).state

    (directory / "key").write_text("secret")
    monkeypatch.setattr(control_client, "call", answer)
    return local_job.request(directory, 1, "GET", contract.STATUS_PATH, b"", show)


def test_reply_is_printed_as_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request_state(tmp_path, monkeypatch, b"{}") == 0
    assert capsys.readouterr().out == "starting\n"


def test_reply_of_a_version_that_is_not_understood_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request_state(tmp_path, monkeypatch, b'{"version": 9, "oldest": 9}') == 1
    assert "upgrade this side" in capsys.readouterr().err
