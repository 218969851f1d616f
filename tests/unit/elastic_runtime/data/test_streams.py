"""Streams give the samples of an undisturbed job, whatever resizes and faults happen."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data import batch_assignment
from elastic_runtime.data.streams import Stream, Streams
from elastic_runtime.mistake import Mistake
from tests.builders.steps import Plan, Step

# One for each micro-batch of a step.
STREAMS = 4
# Samples of a micro-batch.
SIZE = 3
EPOCH = 10


def plan(rank: int = 0, world: int = 1, micro_batches: int = STREAMS) -> Plan:
    return Plan(rank, world, micro_batches=micro_batches, micro_batch_size=SIZE)


# --- functions that open a stream -----------------------------------------------------------------


class Records:
    """Ten records an epoch, with a state of their own; `padding` makes it longer."""

    # Records that were read, of all streams.
    reads = 0

    def __init__(self, number: int, epoch: int, padding: int) -> None:
        self.number = number
        self.epoch = epoch
        self.position = 0
        self.padding = "x" * padding

    def __iter__(self) -> Iterator[int]:
        while self.position < EPOCH:
            self.position += 1
            Records.reads += 1
            yield record(self.number, self.epoch, self.position - 1)

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "padding": self.padding}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


def record(number: int, epoch: int, position: int) -> int:
    return number * 1000 + epoch * 100 + position


def with_state(number: int, count: int, epoch: int) -> Iterable[int]:
    return Records(number, epoch, 0)


def with_long_state(number: int, count: int, epoch: int) -> Iterable[int]:
    return Records(number, epoch, 2500)


def without_state(number: int, count: int, epoch: int) -> Iterable[int]:
    return (record(number, epoch, position) for position in range(EPOCH))


def random_records(number: int, count: int, epoch: int) -> Iterable[int]:
    """Drawn from torch's own generator."""
    return (int(torch.randint(1_000_000, ())) for _ in range(EPOCH))


# --- a job ----------------------------------------------------------------------------------------


class Job:
    """All ranks of a job in one process."""

    def __init__(self, open_stream: Any) -> None:
        self.open_stream = open_stream
        self.step = 0
        self.ranks = [self.new_rank()]

    def new_rank(self) -> Streams:
        return Streams(plan(), self.open_stream, list)

    def resize(self, world: int, survivors: int | None = None) -> None:
        """To `world` ranks. At most `survivors` of the ranks stay; others receive the state."""
        staying = min(world, len(self.ranks))
        if survivors is not None:
            staying = min(staying, survivors)
        state = self.ranks[0].state_dict()
        self.ranks = self.ranks[:staying] + [self.new_rank() for _ in range(world - staying)]
        for rank, streams in enumerate(self.ranks):
            streams._session = plan(rank, world)
            if rank >= staying:
                streams.load_state_dict(state)

    def train(self, commit: bool = True, missing: int = -1) -> list[list[int]]:
        """One step: its micro-batches in order. Rank `missing` commits it without the states."""
        batches: list[list[int]] = []
        for rank, streams in enumerate(self.ranks):
            owned = batch_assignment.owned(rank, len(self.ranks), STREAMS)
            batches += streams.batches(Step(self.step, owned))
        blocks = [streams.pack_states(self.step + 1) for streams in self.ranks]
        summed = torch.stack(blocks).sum(0)
        if commit:
            self.step += 1
            for rank, streams in enumerate(self.ranks):
                if rank != missing:
                    streams.unpack_states(summed)
        return batches


def undisturbed(open_stream: Any, steps: int) -> list[list[list[int]]]:
    """The micro-batches of each step of a job of one."""
    job = Job(open_stream)
    return [job.train() for _ in range(steps)]


# (world size, what happens) of each step
EVENTS = st.lists(
    st.tuples(
        st.integers(1, STREAMS + 1),
        st.sampled_from(["train", "fault", "lose all but one", "states missing"]),
    ),
    min_size=1,
    max_size=15,
)


@pytest.mark.parametrize(
    "open_stream", [with_state, with_long_state, without_state, random_records]
)
@given(events=EVENTS)
def test_any_history_reads_the_samples_of_an_undisturbed_job(
    open_stream: Any, events: list[tuple[int, str]]
) -> None:
    job = Job(open_stream)
    batches = []
    for world, event in events:
        if event == "fault":
            job.train(commit=False)
        job.resize(world, survivors=1 if event == "lose all but one" else None)
        is_missing = event == "states missing" and world > 1
        batches.append(job.train(missing=world - 1 if is_missing else -1))
    assert batches == undisturbed(open_stream, len(batches))


def test_each_sample_comes_once_an_epoch_and_in_order() -> None:
    # 30 samples of each stream: three epochs.
    steps = undisturbed(without_state, 10)
    for number in range(STREAMS):
        samples = [sample for step in steps for sample in step[number]]
        assert samples == [
            record(number, epoch, position) for epoch in range(3) for position in range(EPOCH)
        ]


def test_a_stream_with_a_state_is_not_read_again_when_it_moves() -> None:
    job = Job(with_state)
    job.train()
    job.train()
    Records.reads = 0
    job.resize(3)
    job.train()
    assert Records.reads == STREAMS * SIZE


def test_a_checkpoint_loaded_at_another_size_continues_where_it_was() -> None:
    job = Job(with_state)
    first = [job.train() for _ in range(3)]
    later = Job(with_state)
    later.ranks[0].load_state_dict(job.ranks[0].state_dict())
    later.step = 3
    later.resize(2)
    assert [*first, later.train()] == undisturbed(with_state, 4)


def test_a_state_with_another_number_of_streams_is_refused() -> None:
    other = Streams(plan(micro_batches=7), without_state)
    with pytest.raises(Mistake, match="micro_batches is 4 and the saved state has 7 streams"):
        Job(without_state).ranks[0].load_state_dict(other.state_dict())


@pytest.mark.parametrize("owned", [range(2), range(0)])
def test_a_pass_that_does_not_contribute_moves_no_stream(owned: range) -> None:
    """It gets samples too."""
    streams = Streams(plan(), without_state, list)
    expected = undisturbed(without_state, 3)
    for number in range(3):
        batches = list(streams.batches(Step(number, owned, passes_without_weight=2)))
        assert batches[: len(owned)] == expected[number][: len(owned)]
        assert [len(batch) for batch in batches] == [SIZE] * (len(owned) + 2)


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(Mistake, match="stream 0 of 4 has no sample in epoch 0"):
        Job(lambda *_: []).train()


def test_a_stream_that_has_become_shorter_is_refused() -> None:
    with pytest.raises(ValueError, match="stream 1 of 4 is shorter than it was, sample 11"):
        Stream(without_state, 1, STREAMS, {"epoch": 0, "taken": EPOCH + 1, "own": None})


def test_reading_leaves_the_generators_as_they_were() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    Job(random_records).train()
    assert torch.equal(torch.rand(3), expected)
