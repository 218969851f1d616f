"""Sharded jobs of real processes: their losses, steps and samples are those of one process that
holds everything."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from elastic_runtime.contract import State
from tests.harness.local_job import LOST, Job, check_exactly_once, children, undisturbed_losses

pytestmark = pytest.mark.processes

SCRIPT = """
import sys, time, torch
from torch.distributed.fsdp import fully_shard
from elastic_runtime import Session, Sharded
torch.set_num_threads(1)
torch.manual_seed(0)
data, noise = torch.randn(97, 64), torch.randn(97, 8)  # (samples, width)
model = torch.nn.Sequential(torch.nn.Linear(64, 63), torch.nn.Dropout(0.1), torch.nn.Tanh(), torch.nn.Linear(63, 8))
optimizer = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 2e-4}, {"params": model[3].parameters()}], lr=1e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)

def wrap(model, mesh):
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)

session = Session(
    model, optimizer, samples=97, micro_batches=10, micro_batch_size=3, lr_schedulers=[schedule], strategy=STRATEGY,
    checkpoint="save", journal="log",
)
for step in session.steps(int(sys.argv[1])):
    for batch in step:
        time.sleep(float(sys.argv[2]))  # a step that takes its time
        step.backward((model(data[batch.indices]) - noise[batch.indices]).square().mean())
    step.clip(0.5)
"""


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    job = Job(tmp_path, SCRIPT.replace("STRATEGY", request.param))
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], list[float]]:
    """The losses of the first steps of the same script, replicated, run plainly."""
    return partial(
        undisturbed_losses,
        tmp_path_factory.mktemp("undisturbed"),
        SCRIPT.replace("STRATEGY", "None"),
        [],
    )


STRATEGIES = pytest.mark.parametrize(
    "job", ["Sharded(wrap)", "Sharded(wrap, shard_group_size=2)"], ids=["fsdp", "hsdp"], indirect=True
)
NO_COPIES = pytest.mark.parametrize(
    "job", ["Sharded(wrap, peer_copy_every=4)"], ids=["spares"], indirect=True
)
COPIES = pytest.mark.parametrize("job", ["Sharded(wrap, shard_group_size=2)"], ids=["hsdp"], indirect=True)


@STRATEGIES
def test_a_sharded_job_of_any_size_trains_as_if_it_were_one_process(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    ranks = children(job.pods[0].pid)
    for size in (1, 3, 2, 4):
        job.resize(size)
        job.trains(size, beyond=2)
    # nobody was restarted
    assert ranks == children(job.pods[0].pid)
    job.stop()
    check_exactly_once(job, undisturbed)


@COPIES
def test_a_lost_part_comes_from_its_copy_and_costs_the_step_in_flight_only(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    (job.directory / "train.py").write_text(job.script.replace('checkpoint="save", ', ""))
    job.start(0, 1, 2, 3)
    first = job.trains(4)
    job.kill_rank(2)
    second = job.goes_on(first, 4)
    job.kill_pod(3)
    # who hold one copy
    job.goes_on(second, 3)
    job.start(3)
    third = job.trains(4)
    # the one that coordinates
    job.kill_pod(0)
    job.start(0)
    job.goes_on(third, 4)
    job.stop()
    check_exactly_once(job, undisturbed)


@NO_COPIES
def test_a_lost_part_without_a_copy_takes_the_job_back_to_the_newest_spares(
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
    expected = undisturbed(1)
    lines = list(job.lines("steps-*"))
    for line in lines:
        assert line["loss"] == pytest.approx(expected[line["step"] - 1], rel=1e-6), (
            f"step {line['step']}"
        )
    assert len({line["generation"] for line in lines}) > 1
    assert "continuing from the newest peer copies" in job.said()


LOSES = (
    LOST
    + """
from elastic_runtime import Sharded
from elastic_runtime.strategies import resharding

def lose_while_moving(group, *arguments):
    lost(f"move-{group.rank}")
    return move_rows(group, *arguments)

def lose_in_pass(self, *, is_last):
    if session.generation < session._parts.lifecycle.link.record.generation:
        lost(f"pass-{session.rank}")

move_rows, resharding.move_rows = resharding.move_rows, lose_while_moving
Sharded.begin_pass = lose_in_pass
"""
)


@pytest.mark.parametrize("lost", ["move-3", "move-0", "pass-2", "pass-0"])
@COPIES
def test_who_is_lost_in_a_shrink(
    job: Job, undisturbed: Callable[[int], list[float]], lost: str
) -> None:
    """Four ranks in two copies shrink to one, which has half of the state, and nothing is durable.
    One is lost when rows are handed over,
    or in the step before: it costs the step in flight.
    """
    (job.directory / "train.py").write_text(LOSES + job.script.replace('checkpoint="save", ', ""))
    job.start(0, 1, 2, 3)
    before = job.trains(4)
    asked = job.directory / lost
    asked.touch()
    job.resize(1)
    job.until(lambda s: s.ceded(1) and s.generation > before.generation + 1)
    assert job.trains(1).durableStep == 0
    # it was lost, and just then
    assert not asked.exists()
    job.resize(4)
    job.trains(4)
    job.stop()
    check_exactly_once(job, undisturbed)


@NO_COPIES
def test_one_lost_while_it_hands_over_takes_the_job_back_to_the_newest_spares(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    (job.directory / "train.py").write_text(LOSES + job.script)
    job.start(0, 1, 2)
    job.trains(3, beyond=6)
    (job.directory / "move-2").touch()
    job.resize(1)
    job.until(lambda s: s.ceded(1))
    job.trains(1)
    job.stop()
    expected = undisturbed(1)
    for line in job.lines("steps-*"):
        assert line["loss"] == pytest.approx(expected[line["step"] - 1], rel=1e-6), (
            f"step {line['step']}"
        )
    assert "continuing from the newest peer copies" in job.said()


@NO_COPIES
def test_two_neighbours_lost_at_once_are_more_than_spares_can_give_back(job: Job) -> None:
    job.start(0, 1, 2)
    job.trains(3)
    for index in (0, 1):
        job.kill_rank(index)
    job.until(lambda _: "no peer copy or save has it" in job.said())


@NO_COPIES
def test_what_a_sharded_job_saved_goes_on_at_another_size_in_another_form(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    job.trains(2)
    job.stop()
    before = check_exactly_once(job, undisturbed)
    (job.directory / "train.py").write_text(SCRIPT.replace("STRATEGY", "None"))
    job.start(0, 1, 2)
    assert job.trains(3).step > before
    job.stop()
    between = check_exactly_once(job, undisturbed)
    (job.directory / "train.py").write_text(job.script)
    job.start(0)
    assert job.trains(1).step > between
    job.stop()
    check_exactly_once(job, undisturbed)
