"""Micro-batches with weights: a step's loss is that of all its tokens, at every size."""

from collections.abc import Callable

import pytest

from elastic_runtime import contract
from tests.harness.local_job import LOST, SCRIPTS, Job, check_exactly_once
from tests.marks import LONG, in_long

pytestmark = pytest.mark.processes
# A rank is lost, on request, when it has all gradients and has not voted yet.
LOSE_IN_COMMIT = """
from elastic_runtime.training.transaction import StepTransaction

def lose_in_commit(self, step):
    is_reduced = reduce(self, step)
    lost(f"commit-{session.rank}")
    return is_reduced

reduce, StepTransaction._reduce = StepTransaction._reduce, lose_in_commit
"""
SCRIPT = LOST + LOSE_IN_COMMIT + (SCRIPTS / "weighted.py").read_text()
# What the losses are compared with: one process, by ordered sums.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"deterministic"')
WEIGHT = "weight=tokens"


@LONG
@pytest.mark.parametrize("job", ["hsdp", "replicated", "deterministic"], indirect=True)
def test_the_loss_is_that_of_all_tokens_through_growth_and_losses(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.start(2, 3)
    before = job.trains(4)
    job.kill_rank(3)
    before = job.resumes(before, 4)
    (job.directory / "commit-2").touch()
    job.resumes(before, 4)
    assert not (job.directory / "commit-2").exists(), "the rank was not lost"
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.stop()
    last = check_exactly_once(job, undisturbed)
    if job.env["STRATEGY"] == "deterministic":
        losses = {line["step"]: line["loss"] for line in job.lines("steps-*")}
        expected = undisturbed(last)
        assert [losses[step] for step in range(1, last + 1)] == expected[:last], "bit by bit"


@LONG
@pytest.mark.parametrize("job", ["fsdp"], indirect=True)
def test_a_sharded_job_has_the_loss_of_all_tokens_at_sizes_that_do_not_divide(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """Ranks with fewer micro-batches run passes that do not count."""
    job.start(0, 1, 2)
    job.trains(3)
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.resize(2)
    job.trains(2)
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("job", ["replicated", *in_long("fsdp")], indirect=True)
def test_weights_on_some_workers_only_end_the_job_with_one_line(job: Job) -> None:
    weight = "weight=None if session.rank == 1 else tokens"
    (job.directory / "train.py").write_text(SCRIPT.replace(WEIGHT, weight))
    # It waits for both.
    job.env[contract.SIZES_ENV] = "2,8"
    job.start(0, 1)
    assert [pod.wait(120) for pod in job.pods.values()] == [1, 1], job.output()
    for index in (0, 1):
        text = (job.directory / f"pod-{index}.txt").read_text()
        [line] = [line for line in text.splitlines() if not line.startswith("{")]
        assert "in step 0, micro-batch 0 has a weight and micro-batch 5 has none: pass" in line
        assert text.count('"rank died"') == 1
