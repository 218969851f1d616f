"""The command as a newcomer meets it: its help names every word, and what is mistyped is answered
in a line."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime.json_logging import log_to
from tests.paths import TREE


def command(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elastic_runtime", *words],
        cwd=directory,
        env={"PYTHONPATH": str(TREE)},
        text=True,
        capture_output=True,
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
        pytest.param(
            ["resize", "two"],
            "resize to how many pods? `resize 2`, not `resize two`",
            id="no number",
        ),
        pytest.param(
            ["resize", "2"], "no local job was started in this directory", id="no job to resize"
        ),
        pytest.param(["status"], "no local job was started in this directory", id="no job to ask"),
    ],
)
def test_what_cannot_be_done_is_answered_in_a_line(
    tmp_path: Path, words: list[str], complaint: str
) -> None:
    done = command(*words, directory=tmp_path)
    assert done.returncode != 0
    assert complaint in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_verify_says_what_is_wrong_with_a_save_in_json_and_beside_its_answer(
    tmp_path: Path,
) -> None:
    (tmp_path / "step-000000007").mkdir()
    done = command("verify", str(tmp_path), directory=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    *_, warned, answer = done.stderr.splitlines()
    assert json.loads(warned)["level"] == "WARNING"
    assert "is whole" in answer


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """The runtime's, as nobody has set it; afterwards as it was."""
    found = logging.getLogger("elastic_runtime")
    handlers = found.handlers[:]
    level = found.level
    found.handlers.clear()
    yield found
    found.handlers[:] = handlers
    found.setLevel(level)


def test_the_log_is_a_json_object_a_line_written_once_and_seen_by_a_scripts_own_handlers(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    first = io.StringIO()
    second = io.StringIO()
    log_to(first)
    log_to(second)
    log.getChild("agent.agent").info("pod up", extra={"index": 3})
    log.debug("not this")
    (line,) = first.getvalue().splitlines()
    found = json.loads(line)
    assert (found["message"], found["logger"], found["level"], found["index"]) == (
        "pod up",
        "elastic_runtime.agent.agent",
        "INFO",
        3,
    )
    assert second.getvalue() == ""
    assert [record.getMessage() for record in caplog.records] == ["pod up"]
