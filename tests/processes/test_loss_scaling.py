"""Loss scaling: all ranks skip a step together, and keep the scale through all that happens."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.harness.local_job import LOST, SCRIPTS, Job, check_exactly_once
from tests.marks import LONG
from tests.processes.test_weights import LOSE_IN_COMMIT

pytestmark = pytest.mark.processes
SCRIPT = LOST + LOSE_IN_COMMIT + (SCRIPTS / "scaled.py").read_text()
# What the losses are compared with: one process, by ordered sums.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"deterministic"')


def scales(directory: Path) -> dict[int, set[float]]:
    """By step, those that any rank had before it."""
    scales: dict[int, set[float]] = {}
    for path in directory.glob("scales-*.jsonl"):
        # A rank that is killed may leave a part of a line.
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                step, scale = json.loads(line)
                scales.setdefault(step, set()).add(scale)
    return scales


@LONG
@pytest.mark.parametrize("job", ["replicated", "deterministic", "hsdp"], indirect=True)
def test_the_scale_is_that_of_an_undisturbed_job_on_all_ranks(
    job: Job, undisturbed: Callable[[int], list[float]], undisturbed_directory: Path
) -> None:
    """Through growth, a rank that is lost in a commit, a shrink and a restart. With shards, only
    some ranks have the row that overflows."""
    job.start(0, 1)
    job.trains(2)
    job.start(2, 3)
    before = job.trains(4)
    (job.directory / "commit-2").touch()
    job.resumes(before, 4)
    assert not (job.directory / "commit-2").exists(), "the rank was not lost"
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.stop()
    stopped_at = max(scales(job.directory))
    job.start(0, 1)
    assert job.trains(2).step > stopped_at
    job.stop()
    last = check_exactly_once(job, undisturbed)
    expected = scales(undisturbed_directory)
    assert scales(job.directory) == {step: expected[step] for step in scales(job.directory)}
    # One for each step.
    history = [scale for step in range(last) for scale in expected[step]]
    assert len(history) == last
    assert sum(later < earlier for earlier, later in pairwise(history)) > 5, "skipped steps"
    if job.env["STRATEGY"] == "deterministic":
        losses = {line["step"]: line["loss"] for line in job.lines("steps-*")}
        first = undisturbed(last)[:last]
        assert [losses[step] for step in range(1, last + 1)] == first, "bit by bit"
