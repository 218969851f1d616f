"""`cede whatif`: it runs the program that answers, and prints what that prints."""

import json
from pathlib import Path

import pytest

from cede.cli import main
from scheduler import snapshot_dump
from tests.builders.pictures import NOW, ClusterOf, JobOf, manifest

GPT = JobOf("research", "gpt", 8, ["n1"] * 4 + ["n2"] * 4, sizes="2-8")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A snapshot, and a Job."""
    cluster = ClusterOf([GPT])
    dump, job = tmp_path / "dump.json", tmp_path / "job.yaml"
    dump.write_text(snapshot_dump.write(cluster.objects(), cluster.policy.spec, NOW))
    job.write_text(json.dumps(manifest("inference", 4)))
    return str(dump), str(job)


def test_the_answer_of_the_program_is_printed(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    dump, job = files
    code = main(["whatif", "submit", "-f", job, "-n", "vision", "--snapshot", dump])
    first = capsys.readouterr().out.splitlines()[0]
    assert (code, first) == (0, "Job vision/inference: admitted after a take-back")


def test_options_of_all_commands_may_stand_before_it(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["-o", "json", "whatif", "drain", "n2", "--snapshot", files[0]])
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["question"]) == (0, "drain n2")


def test_its_failure_is_that_of_the_command(
    files: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["whatif", "drain", "n9", "--snapshot", files[0]])
    text, errors = capfd.readouterr()
    assert (code, text) == (2, "")
    assert errors == "whatif: there is no node n9: name one of n1, n2\n"


def test_a_name_with_a_hyphen_is_no_option(
    files: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["whatif", "drain", "--snapshot", files[0], "--", "--kubeconfig"])
    assert code == 2
    assert "there is no node --kubeconfig" in capfd.readouterr().err


def test_a_program_of_its_name_in_the_current_folder_is_not_run(
    files: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "whatif.py").write_text("print('somebody else')")
    monkeypatch.chdir(tmp_path)
    code = main(["whatif", "drain", "n2", "--snapshot", files[0]])
    text = capfd.readouterr().out
    assert (code, text.splitlines()[0]) == (0, "drain n2: 1 job changes")


def test_without_the_program_one_line_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a training image, whose wheel was built without it, or beside somebody else's package
    of this name."""
    monkeypatch.setattr("cede.prediction.PROGRAM", "wheel_only")
    code = main(["whatif", "drain", "n1"])
    errors = capsys.readouterr().err
    assert (code, len(errors.splitlines())) == (2, 1)
    assert "install Cede's own wheel with its extra [cli], or run this command in a" in errors
