"""The best state of a job of several ranks stays on disk, through losses and restarts."""

import time
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import best_mark, restore
from tests.harness.local_job import SCRIPTS, Job
from tests.marks import LONG

pytestmark = pytest.mark.processes
# The value falls until step 40 and rises from there.
MEASURE = """
    if step.number % 10 == 0:
        session.keep_best(abs(step.number - 40))
"""
BODY = "    for batch in step:\n"
SCRIPT = (SCRIPTS / "saves.py").read_text().replace(BODY, MEASURE + BODY)


def check(directory: Path) -> int | None:
    """The marked step, if there is one, has a checkpoint that can be read."""
    mark = best_mark.read(directory)
    if mark is None:
        assert not (directory / best_mark.MARK).exists()
        return None
    assert mark.value == abs(mark.step - 40)
    best = restore.best(directory)
    assert best
    assert restore.load(best)["step"] == mark.step
    return mark.step


@LONG
def test_the_best_is_kept_while_ranks_are_lost_and_the_job_starts_again(job: Job) -> None:
    directory = job.directory / "save"
    job.start(0, 1, 2)
    job.trains(3)
    job.until(lambda s: s.step >= 12)
    job.kill_rank(1)
    job.trains(3)
    job.resize(2)
    job.until(lambda s: s.step >= 55)
    job.stop()
    # A save that a loss had interrupted may have been missed.
    best = check(directory)
    assert best is not None
    job.start(0, 1)
    job.until(lambda s: s.step >= 95)
    job.stop()
    assert check(directory) == best


@LONG
def test_a_job_that_is_killed_at_any_moment_has_a_mark_of_a_whole_checkpoint(job: Job) -> None:
    directory = job.directory / "save"
    for attempt in range(4):
        job.start(0, 1)
        before = job.trains(2).step
        job.until(lambda s, first=before: s.step >= first + 8)  # type: ignore[misc]
        # Not at the same place each time.
        time.sleep(0.01 * attempt)
        for index in (1, 0):
            job.kill_pod(index)
        check(directory)


# The disk of the leading rank is slow when it marks the best.
AFTER_THE_LOOP = """
from pathlib import Path
from elastic_runtime import restore
from elastic_runtime.checkpointing import best_mark
write = best_mark.write

def write_slowly(*arguments):
    time.sleep(1)
    write(*arguments)

best_mark.write = write_slowly
session.keep_best(0.5)
print("the best is step", restore.best(Path("save")).step)
"""


def test_behind_the_loop_all_workers_read_the_same_best(job: Job) -> None:
    """They load it, and test it together."""
    (job.directory / "train.py").write_text(SCRIPT + AFTER_THE_LOOP)
    job.steps = 15
    job.start(0, 1, 2)
    assert [pod.wait(120) for pod in job.pods.values()] == [0, 0, 0], job.output()
    assert job.output().count("the best is step 15") == 3, job.output()
