"""Collectives of the script's own: the losses are those of an undisturbed run."""

from collections.abc import Callable

import pytest

from elastic_runtime import contract
from tests.harness.local_job import LOST, SCRIPTS, Job, check_exactly_once
from tests.marks import LONG

pytestmark = pytest.mark.processes
# A rank is lost or freezes, on request, in a collective: before it sends its rows or when it has
# all.
FAULTS = """
import signal
import time
from elastic_runtime.training import collectives

def all_gather_rows(group, tensor):
    place = f"{tensor.dim()}-{group.rank}"
    lost(f"enter-{place}")
    if Path(f"freeze-{place}").exists():
        Path(f"freeze-{place}").unlink()
        os.kill(os.getpid(), signal.SIGSTOP)
    rows = gather(group, tensor)
    lost(f"leave-{place}")
    return rows

gather, collectives.all_gather_rows = collectives.all_gather_rows, all_gather_rows
"""
SCRIPT = LOST + FAULTS + (SCRIPTS / "contrastive.py").read_text()
# What the losses are compared with: one process.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"replicated"')
# The rows of codes have two dimensions, those behind the loop one.
BEFORE = "2"
BEHIND = "1"


@LONG
@pytest.mark.parametrize("job", ["replicated", "deterministic", "hsdp"], indirect=True)
def test_a_lost_worker_and_resizes_change_no_loss(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """Also with workers that have different numbers of micro-batches."""
    job.start(0, 1, 2, 3)
    status = job.trains(4)
    for place in (f"enter-{BEFORE}-1", f"leave-{BEFORE}-3", f"enter-{BEHIND}-2"):
        (job.directory / place).touch()
        status = job.resumes(status, 4)
        assert not (job.directory / place).exists(), "the rank was not lost"
    for size in (3, 1, 4):
        job.resize(size)
        job.trains(size)
    job.stop()
    check_exactly_once(job, undisturbed)


# A call that only some workers make, before or behind the loop over micro-batches.
CODES = "    codes = step.gather_batch(encode)\n"
CLIP = "    step.clip("
ONLY = "if session.world > 1 and step.number == 2 and session.rank == %d:\n        step.all_reduce"
MISMATCHES = [
    pytest.param(
        CODES,
        f'    {ONLY % 0}(torch.ones(()), "max")\n{CODES}',
        ["a worker called step.all_reduce (max of float64 on cpu in shape (), before the"],
        id="before the loop, by worker 0",
    ),
    pytest.param(
        CLIP,
        f"    {ONLY % 1}(torch.ones(3))\n{CLIP}",
        [
            "step.all_reduce (sum of float64 on cpu in shape (3,), behind the micro-batches) was "
            "called by some workers, and others went on without it: call it on all of them"
        ],
        marks=LONG,
        id="behind the loop, by worker 1",
    ),
    pytest.param(
        CODES,
        f"    if step.number != 2 or session.rank:\n    {CODES}",
        ["step.gather_batch was called by some workers, and others went on without it"],
        marks=LONG,
        id="before the loop, not by worker 0",
    ),
]


@pytest.mark.parametrize("job", ["replicated"], indirect=True)
@pytest.mark.parametrize(("old", "new", "lines"), MISMATCHES)
def test_other_calls_on_some_workers_end_the_job_with_one_line_on_each(
    job: Job, old: str, new: str, lines: list[str]
) -> None:
    (job.directory / "train.py").write_text(SCRIPT.replace(old, new))
    # It waits for both.
    job.env[contract.SIZES_ENV] = "2,8"
    job.start(0, 1)
    assert [pod.wait(60) for pod in job.pods.values()] == [1, 1], job.output()
    for index in (0, 1):
        text = (job.directory / f"pod-{index}.txt").read_text()
        [line] = [line for line in text.splitlines() if not line.startswith("{")]
        assert lines[0] in line
        assert text.count('"rank died"') == 1


@LONG
@pytest.mark.parametrize("job", ["replicated"], indirect=True)
@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        pytest.param(f"freeze-{BEFORE}-1", "it has not answered for", id="frozen in a collective"),
        pytest.param("stuck", "others wait for its step", id="stuck before a collective"),
    ],
)
def test_a_worker_that_hangs_is_found_and_started_again(
    job: Job, undisturbed: Callable[[int], list[float]], fault: str, cause: str
) -> None:
    stuck = '    while session.rank == 1 and Path("stuck").exists():\n        time.sleep(0.1)\n'
    (job.directory / "train.py").write_text(SCRIPT.replace(CODES, stuck + CODES))
    job.env[contract.STEP_TIMEOUT_ENV] = "3"
    job.start(0, 1)
    # Until the agent watches it closely.
    before = job.trains(2, beyond=20)
    (job.directory / fault).touch()
    job.until(lambda s: s.generation > before.generation)
    (job.directory / fault).unlink(missing_ok=True)
    job.resumes(before, 2)
    job.stop()
    check_exactly_once(job, undisturbed)
    assert cause in (job.directory / "pod-1.txt").read_text()
