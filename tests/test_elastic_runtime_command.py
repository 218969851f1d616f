"""The command as a newcomer meets it: its help names every word, and what is mistyped is answered in a line."""

import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).resolve().parents[1]


def command(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elastic_runtime", *words], cwd=directory, env={"PYTHONPATH": str(TREE)}, text=True, capture_output=True
    )


def test_the_help_shows_every_word_by_example(tmp_path: Path) -> None:
    done = command("--help", directory=tmp_path)
    assert done.returncode == 0
    for words in (
        "--local 4 train.py",
        "status",
        "resize 2",
        "save",
        "in place of torchrun",
        "--signal USR1 --done saved.txt -- any command",
        "--port",
        "--directory",
    ):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param([], "which script? `--local 2 train.py` runs it here", id="nothing"),
        pytest.param(["train.py"], "not in a pod of an elastic job", id="neither a pod nor local"),
        pytest.param(["resize"], "resize to how many pods?", id="no size"),
        pytest.param(["resize", "two"], "resize to how many pods? `resize 2`, not `resize two`", id="no number"),
        pytest.param(["resize", "2"], "no local job was started in this directory", id="no job to resize"),
        pytest.param(["status"], "no local job was started in this directory", id="no job to ask"),
    ],
)
def test_what_cannot_be_done_is_answered_in_a_line(tmp_path: Path, words: list[str], complaint: str) -> None:
    done = command(*words, directory=tmp_path)
    assert done.returncode != 0
    assert complaint in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
