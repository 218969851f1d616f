"""An error that is no lost peer ends the process that has it, with its cause in the status. The
other pods train on."""

import pytest

from tests.harness.local_job import SCRIPT, Job
from tests.marks import LONG

pytestmark = pytest.mark.processes
# The pod whose script has this file makes another model.
OTHER_MODEL = SCRIPT.replace(
    "Linear(64, 64)", 'Linear(64, 64, bias=not __import__("os").path.exists("changed"))'
)
# As nanoGPT's script for several processes.
OWN_SEEDS = SCRIPT.replace(
    "samples=97,", 'samples=97, seed=1337 + int(__import__("os").environ["JOB_COMPLETION_INDEX"]),'
)
# A state that cannot be loaded, as of an object that needs a GPU which is broken.
BROKEN_STATE = SCRIPT.replace(
    "session = Session(",
    """
class Counter:
    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        raise RuntimeError("the counter cannot be loaded")

session = Session(""",
).replace('journal="log",', 'journal="log", stateful=[Counter()],')
# Every rank fails in the same sum, whoever is there.
BROKEN_SUM = SCRIPT.replace(
    "from elastic_runtime import Session",
    """
from elastic_runtime import Session
from elastic_runtime.strategies.gradient_buckets import GradientBuckets
from pathlib import Path

reduce = GradientBuckets.reduce

def failing_reduce(self, loss):
    if Path("changed").exists():
        self._group.failure = "Invalid scalar type"
        self.broken = True
    return reduce(self, loss)

GradientBuckets.reduce = failing_reduce
""",
)


def check_gave_up(job: Job, cause: str) -> None:
    """Pod 1 has ended within a few generations, and pod 0 trains on."""
    ended = job.until(lambda s: s.message.startswith("pod 1 gave up: ") and s.size == 1)
    assert cause in ended.message
    assert job.pods[1].wait(30) == 1
    assert ended.generation <= 12
    assert job.trains(1).step > ended.step


def test_a_pod_that_comes_back_with_another_model_ends(job: Job) -> None:
    (job.directory / "train.py").write_text(OTHER_MODEL)
    job.start(0, 1)
    job.trains(2)
    (job.directory / "changed").touch()
    job.kill_rank(1)
    check_gave_up(job, "the model of this worker has other parameters than that of the job")


@LONG
@pytest.mark.parametrize(
    ("script", "cause"),
    [
        pytest.param(
            OWN_SEEDS, "seed is 1338 on this worker and 1337 in the job", id="with its own seed"
        ),
        pytest.param(
            BROKEN_STATE,
            "RuntimeError: the counter cannot be loaded",
            id="that cannot load the state",
        ),
    ],
)
def test_a_pod_that_joins_and_does_not_fit_ends(job: Job, script: str, cause: str) -> None:
    (job.directory / "train.py").write_text(script)
    job.start(0)
    job.trains(1)
    job.start(1)
    check_gave_up(job, cause)


@LONG
def test_a_step_that_fails_without_a_loss_ends_the_processes(job: Job) -> None:
    (job.directory / "train.py").write_text(BROKEN_SUM)
    job.start(0, 1)
    before = job.trains(2)
    (job.directory / "changed").touch()
    cause = "a step failed 3 times in a row, though no rank was lost: Invalid scalar type"
    assert job.until(lambda s: cause in s.message).generation <= before.generation + 4
