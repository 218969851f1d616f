"""What a job's own log remembers when every process of the job is gone."""

import json
from pathlib import Path

from elastic_runtime.journal import newest_generation


def wrote(path: Path, *generations: int) -> None:
    path.write_text("".join(json.dumps({"step": i, "generation": g}, separators=(",", ":")) + "\n" for i, g in enumerate(generations)))


def test_without_a_journal_no_generation_is_known(tmp_path: Path) -> None:
    assert newest_generation(None) == newest_generation(tmp_path) == newest_generation(tmp_path / "none yet") == 0


def test_the_newest_generation_of_any_rank_is_found_by_steps_and_by_samples_alone(tmp_path: Path) -> None:
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
