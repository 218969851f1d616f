"""Streams through any history of sizes and faults: the samples of a job are those of one that never
changed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data import batch_assignment
from elastic_runtime.data.streams import Streams

# micro-batches a step, samples a micro-batch
STREAMS = 4
SIZE = 3


@dataclass
class Rank:
    rank: int = 0
    world: int = 1
    seed: int = 0
    micro_batches: int = STREAMS
    micro_batch_size: int = SIZE


@dataclass
class Batch:
    number: int
    contributes: bool = True


@dataclass
class Step:
    number: int
    mine: Iterable[int]
    # passes that do not count
    more: int = 0

    def __iter__(self) -> Iterator[Batch]:
        yield from (Batch(number) for number in self.mine)
        yield from (Batch(0, contributes=False) for _ in range(self.more))


class Records:
    """Ten records an epoch, with a state of their own; `padding` makes it a long one."""

    # of all of them
    reads = 0

    def __init__(self, number: int, epoch: int, padding: int) -> None:
        self.number = number
        self.epoch = epoch
        self.at = 0
        self.padding = "x" * padding

    def __iter__(self) -> Iterator[int]:
        while self.at < 10:
            self.at += 1
            Records.reads += 1
            yield self.number * 1000 + self.epoch * 100 + self.at - 1

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "padding": self.padding}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def with_state(number: int, count: int, epoch: int) -> Iterable[int]:
    return Records(number, epoch, 0)


def with_a_long_state(number: int, count: int, epoch: int) -> Iterable[int]:
    return Records(number, epoch, 2500)


def plain(number: int, count: int, epoch: int) -> Iterable[int]:
    return (number * 1000 + epoch * 100 + at for at in range(10))


def drawn(number: int, count: int, epoch: int) -> Iterable[int]:
    """Each record by chance, from torch's own generator."""
    return (int(torch.randint(1_000_000, ())) for _ in range(10))


class Job:
    """All ranks of a job in one process."""

    def __init__(self, opener: Any) -> None:
        self.opener, self.step, self.ranks = opener, 0, [Streams(Rank(), opener, list)]

    def resize(self, world: int, keep: int | None = None) -> None:
        """To `world` ranks; the first `keep` of those there are live on, the others know what a
        peer tells them."""
        keep = min(world, len(self.ranks)) if keep is None else min(keep, world, len(self.ranks))
        state = self.ranks[0].state_dict()
        self.ranks = self.ranks[:keep] + [
            Streams(Rank(), self.opener, list) for _ in range(world - keep)
        ]
        for rank, streams in enumerate(self.ranks):
            streams._session = Rank(rank, world)
            if rank >= keep:
                streams.load_state_dict(state)

    def train(self, commit: bool = True, deaf: int = -1) -> list[list[int]]:
        """One step: its micro-batches in order. `deaf`: a rank that commits it without having heard
        what rode on it."""
        found = [
            batch
            for rank, streams in enumerate(self.ranks)
            for batch in streams.batches(
                Step(self.step, batch_assignment.owned(rank, len(self.ranks), STREAMS))
            )
        ]
        said = torch.stack([streams.pack_states(self.step + 1) for streams in self.ranks]).sum(0)
        if commit:
            self.step += 1
            for rank, streams in enumerate(self.ranks):
                if rank != deaf:
                    streams.unpack_states(said)
        return found


def undisturbed(opener: Any, steps: int) -> list[list[list[int]]]:
    job = Job(opener)
    return [job.train() for _ in range(steps)]


EVENTS = st.lists(
    st.tuples(
        st.integers(1, STREAMS + 1), st.sampled_from(["train", "fault", "lose all but one", "deaf"])
    ),
    min_size=1,
    max_size=15,
)


@pytest.mark.parametrize("opener", [with_state, with_a_long_state, plain, drawn])
@given(events=EVENTS)
def test_any_history_reads_the_samples_of_an_undisturbed_one(
    opener: Any, events: list[tuple[int, str]]
) -> None:
    job = Job(opener)
    found = []
    for world, what in events:
        if what == "fault":
            job.train(commit=False)
        job.resize(world, keep=1 if what == "lose all but one" else None)
        found.append(job.train(deaf=world - 1 if what == "deaf" and world > 1 else -1))
    assert found == undisturbed(opener, len(found))


def test_each_sample_comes_once_an_epoch_and_in_order() -> None:
    # 30 samples of each stream: three epochs
    found = undisturbed(plain, 10)
    for number in range(STREAMS):
        seen = [sample for step in found for sample in step[number]]
        assert seen == [number * 1000 + epoch * 100 + at for epoch in range(3) for at in range(10)]


def test_a_stream_with_a_state_is_not_read_again_when_it_moves() -> None:
    job = Job(with_state)
    job.train()
    job.train()
    Records.reads = 0
    job.resize(3)
    job.train()
    assert Records.reads == STREAMS * SIZE


def test_a_save_taken_up_at_another_size_goes_on_where_it_was() -> None:
    job = Job(with_state)
    later = Job(with_state)
    first = [job.train() for _ in range(3)]
    later.ranks[0].load_state_dict(job.ranks[0].state_dict())
    later.step = 3
    later.resize(2)
    assert [*first, later.train()] == undisturbed(with_state, 4)


def test_a_state_of_another_number_of_streams_is_refused() -> None:
    other = Streams(Rank(micro_batches=7), plain)
    with pytest.raises(ValueError, match="micro_batches is 4 and the state is of 7 streams"):
        Job(plain).ranks[0].load_state_dict(other.state_dict())


@pytest.mark.parametrize("mine", [range(2), range(0)])
def test_a_pass_that_does_not_count_gets_samples_and_moves_no_stream(mine: range) -> None:
    streams = Streams(Rank(), plain, list)
    expected = undisturbed(plain, 3)
    for number in range(3):
        given = list(streams.batches(Step(number, mine, more=2)))
        assert given[: len(mine)] == expected[number][: len(mine)]
        assert [len(batch) for batch in given] == [SIZE] * (len(mine) + 2)


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="stream 0 of 4 gave no sample in epoch 0"):
        Job(lambda *_: []).train()


def test_reading_leaves_the_generators_as_they_were() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    Job(drawn).train()
    assert torch.equal(torch.rand(3), expected)
