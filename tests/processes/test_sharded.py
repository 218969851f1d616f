"""Sharded jobs: losses, steps and samples are those of one process that holds everything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from elastic_runtime.contract import State
from tests.harness.local_job import (
    LOST,
    SCRIPTS,
    Job,
    check_exactly_once,
    children,
    moves_between_strategies,
)
from tests.marks import LONG, in_long

pytestmark = pytest.mark.processes
SCRIPT = (SCRIPTS / "sharded.py").read_text()
# What the losses are compared with: one process, replicated.
UNDISTURBED = SCRIPT.replace('os.environ["STRATEGY"]', '"replicated"')
# A model that is large beside what a process needs without it.
LARGE_SCRIPT = (SCRIPTS / "large_sharded.py").read_text()
BLOCK_BYTES = 2048 * 2048 * 4
MODEL_BYTES = 8 * BLOCK_BYTES
# Connections, the blocks of files that are being read, and what Python needs.
OTHER_BYTES = 48 << 20
# The script, in a process that is lost while it moves rows or in its next pass, on request.
SCRIPT_WITH_LOSSES = (
    LOST
    + """
from elastic_runtime import Sharded
from elastic_runtime.strategies import resharding

def lose_while_moving(group, *arguments):
    lost(f"move-{group.rank}")
    return move_rows(group, *arguments)

def lose_in_pass(self, *, is_last):
    if Path(f"pass-{session.rank}").exists():
        while session._parts.lifecycle.link.record.generation == session.generation:
            time.sleep(0.01)  # until a resize is planned
        lost(f"pass-{session.rank}")
    begin_pass(self, is_last=is_last)

move_rows, resharding.move_rows = resharding.move_rows, lose_while_moving
begin_pass, Sharded.begin_pass = Sharded.begin_pass, lose_in_pass
"""
    + SCRIPT
)


ALL = pytest.mark.parametrize("job", ["fsdp", *in_long("hsdp", "meta")], indirect=True)
HSDP = pytest.mark.parametrize("job", ["hsdp"], indirect=True)
PEER_COPIES = pytest.mark.parametrize("job", ["peer-copies"], indirect=True)


def check_losses(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    """Steps may have been repeated; each time they had the undisturbed job's loss."""
    expected = undisturbed(1)
    for line in job.lines("steps-*"):
        step = line["step"]
        assert line["loss"] == pytest.approx(expected[step - 1], rel=1e-6), f"step {step}"


# --- resizes --------------------------------------------------------------------------------------


@ALL
def test_a_sharded_job_trains_alike_at_every_size(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    ranks = children(job.pods[0].pid)
    for size in (1, 3, 2, 4):
        job.resize(size)
        job.trains(size, beyond=2)
    assert ranks == children(job.pods[0].pid), "no process was restarted"
    job.stop()
    check_exactly_once(job, undisturbed)


@pytest.mark.parametrize("job", ["peer-copies", *in_long("meta")], indirect=True)
def test_a_checkpoint_is_loaded_at_another_size_by_another_strategy(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    moves_between_strategies(job, undisturbed)


# --- from the meta device -------------------------------------------------------------------------


def extra_memory(directory: Path) -> list[int]:
    """In bytes, by rank: what a start has added at most."""
    return [int((directory / f"memory-{rank}").read_text()) for rank in range(4)]


@LONG
def test_a_model_from_meta_is_never_whole_on_a_worker(tmp_path: Path) -> None:
    """Neither when it begins, nor when it is loaded from a checkpoint, which has three times its
    size because of AdamW."""
    for steps, state_bytes in ((1, MODEL_BYTES), (2, 3 * MODEL_BYTES)):
        job = Job(tmp_path, LARGE_SCRIPT, steps, smallest=4)
        try:
            job.start(0, 1, 2, 3)
            assert [pod.wait(240) for pod in job.pods.values()] == [0] * 4, job.output()
        finally:
            job.kill()
        shard_bytes = state_bytes // 4
        # A block of a new model is whole for a moment.
        assert max(extra_memory(tmp_path)) < shard_bytes + BLOCK_BYTES + OTHER_BYTES


# --- a lost shard that has another copy -----------------------------------------------------------


@HSDP
def test_a_lost_shard_with_a_copy_costs_the_step_in_flight(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.env["NO_CHECKPOINT"] = "1"
    job.start(0, 1, 2, 3)
    first = job.trains(4)
    job.kill_rank(2)
    second = job.resumes(first, 4)
    job.kill_pod(3)
    # The three that are left share one copy.
    job.resumes(second, 3)
    job.start(3)
    third = job.trains(4)
    # Pod 0 is the coordinator.
    job.kill_pod(0)
    job.start(0)
    job.resumes(third, 4)
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
@pytest.mark.parametrize("loss", ["move-0", "pass-2", "move-3", "pass-0"])
@HSDP
def test_a_rank_lost_in_a_shrink_costs_the_step_in_flight(
    job: Job, undisturbed: Callable[[int], list[float]], loss: str
) -> None:
    """Four ranks in two shard groups shrink to one rank, which holds half of the state.

    There is no checkpoint. The rank is lost while rows are handed over, or in the step before.
    """
    job.env["NO_CHECKPOINT"] = "1"
    (job.directory / "train.py").write_text(SCRIPT_WITH_LOSSES)
    job.start(0, 1, 2, 3)
    before = job.trains(4)
    request = job.directory / loss
    request.touch()
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.generation > before.generation + 1)
    assert job.trains(1).durableStep == 0
    assert not request.exists(), "the rank was not lost"
    job.resize(4)
    job.trains(4)
    job.stop()
    check_exactly_once(job, undisturbed)


# --- a lost shard that has none -------------------------------------------------------------------


@LONG
@PEER_COPIES
def test_without_another_copy_the_job_goes_back_to_peer_copies(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2)
    first = job.trains(3, beyond=6)
    job.kill_rank(1)
    job.until(
        lambda s: (
            s.generation > first.generation
            and s.step > first.step + 4
            and s.state == State.TRAINING
        )
    )
    job.stop()
    check_losses(job, undisturbed)
    assert len({line["generation"] for line in job.lines("steps-*")}) > 1
    assert "continuing from the newest peer copies" in job.output()


@LONG
@PEER_COPIES
def test_a_rank_lost_while_it_hands_over_takes_the_job_back_to_peer_copies(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    (job.directory / "train.py").write_text(SCRIPT_WITH_LOSSES)
    job.start(0, 1, 2)
    job.trains(3, beyond=6)
    (job.directory / "move-2").touch()
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.stop()
    check_losses(job, undisturbed)
    assert "continuing from the newest peer copies" in job.output()


@LONG
@PEER_COPIES
def test_two_neighbours_lost_at_once_need_a_checkpoint(job: Job) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    for index in (0, 1):
        job.kill_rank(index)
    job.until(lambda _: "no peer copy or checkpoint has it" in job.output())
