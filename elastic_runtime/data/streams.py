"""Data that can only be read in sequence: one stream for each micro-batch of a step.

    def open_stream(number: int, count: int, epoch: int):
        # any iterable over stream `number` of `count`
        return (record for shard in shards[number::count] for record in read(shard))

    streams = session.streams(open_stream)
    for step in session.steps(1000):
        for samples in streams.batches(step):
            step.backward(loss_of(model, samples))

Micro-batch g of every step takes its samples from stream g, and the owner of the micro-batch reads
them. So the position of a stream depends only on the committed step, and a rank that comes to own a
stream knows how far it was read. With a stream's own state (`state_dict`) that rank need not read
again what was read before. The owners' states travel with the reduction at the end of every step,
and they are in the checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils.data import default_collate

from elastic_runtime.data import batch_assignment, piggyback, random_state
from elastic_runtime.data.map_dataset import BatchPlan, OneStep
from elastic_runtime.mistake import Mistake

# (number of the stream, how many there are, epoch) -> its samples
OpenStream = Callable[[int, int, int], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class KnownState:
    """The state of a stream before it was read for `step`."""

    step: int
    # Empty: the start of the stream.
    state: dict[str, Any]


@dataclass(slots=True)
class OpenedStream:
    # The step that it is to be read for next.
    next_step: int
    stream: "Stream"


class Stream:
    """One stream that is being read, epoch after epoch, from its start or from a `state`.

    Raises ValueError if it is shorter than it was when it had that state.
    """

    def __init__(
        self, open_stream: OpenStream, number: int, count: int, state: dict[str, Any]
    ) -> None:
        self._open = open_stream
        self._number = number
        self._count = count
        self.epoch: int = state.get("epoch", 0)
        # Samples of this epoch that were read.
        self.taken: int = state.get("taken", 0)
        source_state = state.get("own")
        self._start_epoch(source_state)
        if source_state is None:
            self._skip(self.taken)

    def _start_epoch(self, source_state: Any) -> None:
        self._source = self._open(self._number, self._count, self.epoch)
        if source_state is not None:
            self._source.load_state_dict(source_state)  # type: ignore[attr-defined]
        self._samples = iter(self._source)

    def _skip(self, n: int) -> None:
        if len(list(islice(self._samples, n))) < n:
            raise ValueError(
                f"stream {self._number} of {self._count} is shorter than it was, sample {n} of "
                f"epoch {self.epoch} is missing: restore the data, or start a new job"
            )

    def read(self, n: int) -> list[Any]:
        """The next `n` samples; after the last one of an epoch the next epoch begins.

        Raises Mistake if an epoch has no samples.
        """
        samples = list(islice(self._samples, n))
        self.taken += len(samples)
        while len(samples) < n:
            if not self.taken:
                raise Mistake(
                    f"stream {self._number} of {self._count} has no sample in epoch {self.epoch}: "
                    f"every stream needs at least one"
                )
            self.epoch += 1
            self._start_epoch(None)
            more = list(islice(self._samples, n - len(samples)))
            self.taken = len(more)
            samples += more
        return samples

    def state(self) -> dict[str, Any]:
        source_state = self._source.state_dict() if hasattr(self._source, "state_dict") else None
        return {"epoch": self.epoch, "taken": self.taken, "own": source_state}


class Streams:
    """`batches(step)` yields this rank's micro-batches of a step, collated.

    `session.streams` makes it. Each micro-batch has `micro_batch_size` samples of one stream. An
    iterable with `state_dict()` and `load_state_dict()` continues from its state: plain data that
    JSON can hold, loaded before the iterable is iterated. One without them is read again up to its
    position, which is as exact and takes longer.
    """

    def __init__(
        self,
        session: BatchPlan,
        open_stream: OpenStream,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        self._session = session
        self._open = open_stream
        self._collate = collate_fn
        # Both by the number of the stream.
        self._opened: dict[int, OpenedStream] = {}
        self._known: dict[int, KnownState] = {}
        self._exchange = piggyback.StateExchange(session.micro_batches)

    def batches(self, step: OneStep) -> Iterator[Any]:
        """This rank's micro-batches of a step.

        Args:
            step: the step in flight.

        Returns:
            an iterator over them, in the order of their numbers, collated.
        """
        for batch in step:
            if batch.contributes:
                samples = self._read(batch.number, step.number)
            else:
                # Another rank owns the stream; any samples will do.
                stream = self._open_stream(batch.number, {})
                samples = stream.read(self._session.micro_batch_size)
            yield self._collate(samples)

    def _open_stream(self, number: int, state: dict[str, Any]) -> Stream:
        return Stream(self._open, number, self._session.micro_batches, state)

    def _read(self, number: int, step: int) -> list[Any]:
        """The samples of stream `number` for `step`."""
        session = self._session
        opened = self._opened.pop(number, None)
        # Not opened here, or it was read for a step that was never committed.
        if opened is None or opened.next_step != step:
            known = self._known.get(number, KnownState(0, {}))
            if known.step > step:
                # The job went back to a step before that state.
                known = KnownState(0, {})
            opened = OpenedStream(known.step, self._open_stream(number, known.state))
        samples: list[Any] = []
        for step_read in range(opened.next_step, step + 1):
            seed = batch_assignment.random_seed(session.seed, step_read, number, "data")
            with random_state.isolated(seed):
                samples = opened.stream.read(session.micro_batch_size)
        self._opened[number] = OpenedStream(step + 1, opened.stream)
        return samples

    # --- called by the session --------------------------------------------------------------------

    def pack_states(self, step: int) -> torch.Tensor:
        """The states of this rank's streams before `step`, to be summed over all ranks.

        Streams that another rank owns now are closed.
        """
        owned = batch_assignment.owned(
            self._session.rank, self._session.world, self._session.micro_batches
        )
        self._opened = {
            number: opened
            for number, opened in self._opened.items()
            if opened.next_step == step and number in owned
        }
        states = {number: opened.stream.state for number, opened in self._opened.items()}
        return self._exchange.pack(step, states)

    def unpack_states(self, summed: torch.Tensor) -> None:
        """Take in the states of all streams. `summed`: the sum, of a step that is committed."""
        for number, step, state in self._exchange.unpack(summed):
            self._known[number] = KnownState(step, state)

    def state_dict(self) -> dict[str, Any]:
        known = [[number, known.step, known.state] for number, known in sorted(self._known.items())]
        return {"streams": self._session.micro_batches, "known": known}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises Mistake if the state has another number of streams."""
        micro_batches = self._session.micro_batches
        if micro_batches != state["streams"]:
            raise Mistake(
                f"micro_batches is {micro_batches} and the saved state has {state['streams']} "
                f"streams: set micro_batches to {state['streams']}"
            )
        self._known = {
            number: KnownState(step, stream_state) for number, step, stream_state in state["known"]
        }
        self._opened = {}
        self._exchange.clear()
