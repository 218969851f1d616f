"""Loaders and streams give the same samples in the same order, whatever happens to the job."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime.contract import State
from tests.harness.local_job import SCRIPTS, Job, check_exactly_once, undisturbed_losses
from tests.marks import LONG

pytestmark = pytest.mark.processes
SCRIPT = (SCRIPTS / "data.py").read_text()


def samples_given(job: Job) -> list[list[int]]:
    """By committed step, the samples that the script was given, in the order of micro-batches."""
    committed = {line["step"]: line["generation"] for line in job.lines("steps-*")}
    by_step: dict[int, list[tuple[int, list[int]]]] = {}
    for line in job.lines("given-*"):
        if committed.get(line["step"]) == line["generation"]:
            by_step.setdefault(line["step"], []).append((line["rank"], line["samples"]))
    samples_of_steps = list[list[int]]()
    for step in range(1, max(committed) + 1):
        samples_of_steps.append([sample for _, part in sorted(by_step[step]) for sample in part])
    return samples_of_steps


def disturb(job: Job) -> None:
    """Resize it, kill a rank, stop it and start it again."""
    job.start(0, 1, 2)
    job.trains(3)
    job.resize(1)
    shrunk = job.trains(1)
    job.resize(3)
    job.trains(3)
    job.kill_rank(1)
    job.until(lambda s: s.generation > shrunk.generation + 1 and s.state == State.TRAINING)
    last = job.trains(3)
    job.stop()
    job.start(0)
    job.until(lambda s: s.step > last.step + 3 and s.size == 1)
    job.stop()


@LONG
@pytest.mark.parametrize("source", ["loader", "streams"])
def test_a_disturbed_job_is_given_the_samples_of_an_undisturbed_one(
    tmp_path: Path, source: str
) -> None:
    script = SCRIPT.replace('os.environ["SOURCE"]', f'"{source}"')
    undisturbed_folder = tmp_path / "undisturbed"
    undisturbed_folder.mkdir()
    undisturbed: Callable[[int], list[float]] = partial(
        undisturbed_losses, undisturbed_folder, script, [], least=0
    )
    job = Job(tmp_path, script)
    try:
        disturb(job)
    finally:
        job.kill()
    steps = check_exactly_once(job, undisturbed, micro_batches=6)
    expected = samples_given(Job(undisturbed_folder, script))
    assert samples_given(job) == expected[:steps]
