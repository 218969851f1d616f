"""Requests to a job of this machine."""

from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import local_job


def test_request_without_a_job_names_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert local_job.request(tmp_path, 0, "GET", contract.STATUS_PATH) == 1
    assert f"{tmp_path}/key is missing; start one with --local" in capsys.readouterr().err


def test_request_that_nobody_answers_names_the_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("secret")
    assert local_job.request(tmp_path, 1, "GET", contract.STATUS_PATH) == 1
    output = capsys.readouterr()
    assert "no answer on port 1" in output.err
    assert output.out == ""
