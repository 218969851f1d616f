"""What a job's own log remembers when every process of the job is gone."""

import json
from pathlib import Path

import pytest

from elastic_runtime.training.journal import Journal, newest_generation


def wrote(path: Path, *generations: int) -> None:
    path.write_text(
        "".join(
            json.dumps({"step": i, "generation": g}, separators=(",", ":")) + "\n"
            for i, g in enumerate(generations)
        )
    )


def test_without_a_journal_no_generation_is_known(tmp_path: Path) -> None:
    assert (
        newest_generation(None)
        == newest_generation(tmp_path)
        == newest_generation(tmp_path / "none yet")
        == 0
    )


def test_the_newest_generation_of_any_rank_is_found_by_steps_and_by_samples_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.json").write_text('{"generation":99}')
    wrote(tmp_path / "steps-0-0.jsonl", *[1 + step // 500 for step in range(5000)])
    assert newest_generation(tmp_path) == 10
    wrote(tmp_path / "samples-1-0.jsonl", 12)
    assert newest_generation(tmp_path) == 12


def test_a_line_that_was_torn_hides_no_line_before_it(tmp_path: Path) -> None:
    wrote(tmp_path / "steps-0-0.jsonl", 7)
    with open(tmp_path / "steps-0-0.jsonl", "a") as file:
        file.write('{"step":2,"gener')
    assert newest_generation(tmp_path) == 7


def test_a_disk_that_takes_no_lines_costs_no_step_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "steps-0-0.jsonl").symlink_to("/dev/full")
    journal = Journal(tmp_path)
    journal.begin("0-0", None)
    for step in (1, 2):
        journal.step(step, 0.5, 1, 1, None)
        journal.sample(step, 0, [3], 1)
    assert [record.getMessage() for record in caplog.records] == [
        "the journal takes no lines: they are left out until it does"
    ]
    assert len((tmp_path / "samples-0-0.jsonl").read_text().splitlines()) == 2


def test_a_place_that_takes_no_journal_costs_no_step_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file")
    journal.begin("0-0", None)
    journal.step(1, 0.5, 1, 1, None)
    assert [record.getMessage() for record in caplog.records] == [
        "the journal cannot be opened: nothing is written there"
    ]


def test_a_line_that_a_killed_writer_left_torn_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "samples-0-0.jsonl").write_text('{"step":1,"mic')
    journal = Journal(tmp_path)
    journal.begin("0-0", {"seed": 1})
    journal.begin("0-0", {"seed": 2})
    journal.sample(2, 0, [3], 1)
    torn, whole = (tmp_path / "samples-0-0.jsonl").read_text().splitlines()
    assert (torn, json.loads(whole)["step"]) == ('{"step":1,"mic', 2)
    assert json.loads((tmp_path / "run.json").read_text()) == {"seed": 1}
