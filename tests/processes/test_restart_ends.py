"""How scripts under `--restart` end when they are asked to, or before: what the user sees."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent.command_worker import SAVES_AT_STOPS
from elastic_runtime.contract import State
from tests.harness.local_job import Job
from tests.marks import LONG

pytestmark = pytest.mark.processes
# `{save}`: on SIGTERM.
SCRIPT = """
import os, pathlib, signal, sys, time

def save(*_):
    {save}

signal.signal(signal.SIGTERM, save)
pathlib.Path("began-" + os.environ["RANK"] + "-of-" + os.environ["WORLD_SIZE"]).touch()
while True:
    time.sleep(0.02)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    job = Job(tmp_path, "")
    job.command = ["--restart", "--", "train.py"]
    job.env[contract.GRACE_ENV] = "2"
    yield job
    job.kill()


def runs(job: Job, *ranks: str) -> None:
    """Waits until these have begun."""
    job.until(lambda _: all((job.directory / f"began-{rank}").exists() for rank in ranks))


@pytest.mark.parametrize(
    ("save", "message"),
    [
        pytest.param("sys.exit(0)", "", id="saves"),
        pytest.param("sys.exit(143)", "", id="saves, and ends as a shell would", marks=LONG),
        pytest.param(
            "signal.signal(signal.SIGTERM, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGTERM)",
            "pod 1: the script does not handle SIGTERM, and saved nothing",
            id="is ended by the signal",
        ),
        pytest.param(
            "pass",
            "pod 1: the script did not end within 2 s, and was killed",
            id="ignores it",
            marks=LONG,
        ),
        pytest.param(
            "open('/dev/full', 'wb').write(bytes(1 << 20))",
            "pod 1: the script failed with exit code 1 when it had to save",
            id="the disk is full",
            marks=LONG,
        ),
    ],
)
def test_a_resize_is_done_and_the_status_says_how_a_save_failed(
    job: Job, save: str, message: str
) -> None:
    # Rank 0 saves in any case: what it reports must not hide the failure of another.
    own = f"sys.exit(0) if os.environ['RANK'] == '0' else None; {save}"
    (job.directory / "train.py").write_text(SCRIPT.format(save=own))
    job.start(0, 1)
    runs(job, "0-of-2", "1-of-2")
    job.resize(1)
    status = job.until(lambda s: s.ceded(1) and s.parked == (1,))
    runs(job, "0-of-1")
    assert status.message == message
    output = (job.directory / "pod-1.txt").read_text()
    assert ("No space left on device" in output) == ("full" in save)


def test_a_request_to_save_is_answered_and_disturbs_no_script(job: Job) -> None:
    (job.directory / "train.py").write_text(SCRIPT.format(save="sys.exit(0)"))
    job.start(0, 1)
    runs(job, "0-of-2", "1-of-2")
    generation = job.call("POST", contract.CHECKPOINT_PATH).generation
    status = job.until(lambda s: bool(s.saveMessage))
    assert (status.saveMessage, status.message) == (SAVES_AT_STOPS, SAVES_AT_STOPS)
    assert (status.generation, status.size, status.state) == (generation, 2, State.TRAINING)


@LONG
def test_a_rank_that_ends_early_waits_and_takes_part_in_the_next_size(job: Job) -> None:
    (job.directory / "train.py").write_text(
        SCRIPT.format(save="sys.exit(0)").replace(
            "while True:", "while os.environ['RANK'] + os.environ['WORLD_SIZE'] != '02':"
        )
    )
    job.start(0, 1)
    job.until(lambda s: "the script has ended in pod 0, not in all" in s.busy)
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.parked == (1,))
    runs(job, "0-of-1")
