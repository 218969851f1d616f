"""What the journal still holds when every process of the job is gone."""

import json
from pathlib import Path

import pytest

from elastic_runtime.training.journal import Journal, newest_generation


def write_lines(path: Path, *generations: int) -> None:
    lines = [
        json.dumps({"step": step, "generation": generation}, separators=(",", ":"))
        for step, generation in enumerate(generations)
    ]
    path.write_text("".join(f"{line}\n" for line in lines))


# --- the newest generation ------------------------------------------------------------------------


def test_without_a_journal_no_generation_is_known(tmp_path: Path) -> None:
    assert newest_generation(None) == 0
    assert newest_generation(tmp_path) == 0
    assert newest_generation(tmp_path / "missing") == 0


def test_the_newest_generation_is_that_of_any_rank(tmp_path: Path) -> None:
    """In the files of steps and of samples, and in no other file."""
    (tmp_path / "run.json").write_text('{"generation":99}')
    write_lines(tmp_path / "steps-0-0.jsonl", *[1 + step // 500 for step in range(5000)])
    assert newest_generation(tmp_path) == 10
    write_lines(tmp_path / "samples-1-0.jsonl", 12)
    assert newest_generation(tmp_path) == 12


def test_an_incomplete_line_hides_no_line_before_it(tmp_path: Path) -> None:
    write_lines(tmp_path / "steps-0-0.jsonl", 7)
    with open(tmp_path / "steps-0-0.jsonl", "a") as file:
        file.write('{"step":2,"gener')
    assert newest_generation(tmp_path) == 7


# --- writing --------------------------------------------------------------------------------------


def test_a_full_disk_costs_no_step_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "steps-0-0.jsonl").symlink_to("/dev/full")
    journal = Journal(tmp_path)
    journal.begin("0-0", None)
    for step in (1, 2):
        journal.step(step, 0.5, 1, 1, None)
        journal.sample(step, 0, [3], 1)
    assert [record.getMessage() for record in caplog.records] == [
        "the journal cannot be written: its lines are dropped until it can"
    ]
    assert len((tmp_path / "samples-0-0.jsonl").read_text().splitlines()) == 2


def test_a_directory_that_cannot_be_made_costs_no_step_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file")
    journal.begin("0-0", None)
    journal.step(1, 0.5, 1, 1, None)
    assert [record.getMessage() for record in caplog.records] == [
        "the journal cannot be opened: nothing is written there"
    ]


def test_an_incomplete_line_of_a_killed_writer_spoils_no_other_line(tmp_path: Path) -> None:
    (tmp_path / "samples-0-0.jsonl").write_text('{"step":1,"mic')
    journal = Journal(tmp_path)
    journal.begin("0-0", {"seed": 1})
    journal.begin("0-0", {"seed": 2})
    journal.sample(2, 0, [3], 1)
    incomplete, complete = (tmp_path / "samples-0-0.jsonl").read_text().splitlines()
    assert incomplete == '{"step":1,"mic'
    assert json.loads(complete)["step"] == 2
    assert json.loads((tmp_path / "run.json").read_text()) == {"seed": 1}
