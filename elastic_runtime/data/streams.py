"""Samples that come in an order of their own: one stream for each micro-batch of a step, read by
whoever owns it.

    def open_stream(number: int, count: int, epoch: int):  # any iterable over this stream's part of
    the data
        return (record for shard in shards[number::count] for record in read(shard))

    streams = session.streams(open_stream)
    for step in session.steps(1000):
        for samples in streams.batches(step):
            step.backward(loss_of(model, samples))

Micro-batch g of every step takes its samples from stream g. So where a stream stands is a function
of the committed step alone, and a
rank that comes to own one knows how far it was read. What is known of a stream's own state
(`state_dict`) spares it reading again what
was read before: the owners' states ride on the collective that every step ends with, and are in the
checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils.data import default_collate

from elastic_runtime.data import batch_assignment, piggyback, random_state
from elastic_runtime.data.map_dataset import OneStep, Shares

Open = Callable[[int, int, int], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Known:
    """The state a stream had before it was read for `step`."""

    step: int
    state: dict[str, Any]


class Stream:
    """One stream, opened: epoch after epoch, from its start or from a state it once had."""

    def __init__(
        self, open_stream: Open, number: int, count: int, state: dict[str, Any] | None
    ) -> None:
        self._open = open_stream
        self._number = number
        self._count = count
        self.epoch: int = state["epoch"] if state else 0
        # samples of this epoch
        self.taken: int = state["taken"] if state else 0
        own = state.get("own") if state else None
        self._start(own)
        if own is None and self.taken and len(list(islice(self._samples, self.taken))) < self.taken:
            raise ValueError(
                f"stream {number} of {count} is shorter than it was: sample {self.taken} of "
                f"epoch "
                f"{self.epoch} is gone"
            )

    def _start(self, own: Any) -> None:
        self._source = self._open(self._number, self._count, self.epoch)
        if own is not None:
            self._source.load_state_dict(own)  # type: ignore[attr-defined]
        self._samples = iter(self._source)

    def read(self, n: int) -> list[Any]:
        """The next `n` samples; when an epoch ends, the next begins. Raises ValueError for an epoch
        without samples."""
        found = list(islice(self._samples, n))
        self.taken += len(found)
        while len(found) < n:
            if not self.taken:
                raise ValueError(
                    f"stream {self._number} of {self._count} gave no sample in epoch "
                    f"{self.epoch}: every stream needs one"
                )
            self.epoch = self.epoch + 1
            self.taken = 0
            self._start(None)
            more = list(islice(self._samples, n - len(found)))
            self.taken = len(more)
            found += more
        return found

    def state(self) -> dict[str, Any]:
        own = self._source.state_dict() if hasattr(self._source, "state_dict") else None
        return {"epoch": self.epoch, "taken": self.taken, "own": own}


class Streams:
    """`batches(step)` gives this rank's micro-batches, collated: `micro_batch_size` samples of one
    stream each.

    An iterable with `state_dict()` and `load_state_dict()` (called before it is iterated; plain
    data that JSON holds) goes on from its
    state; one without is read past what was used, which is as exact and takes longer.
    """

    def __init__(
        self,
        session: Shares,
        open_stream: Open,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        self._session = session
        self._open = open_stream
        self._collate = collate_fn
        # number → (the step it is to be read for next, the stream)
        self._opened: dict[int, tuple[int, Stream]] = {}
        self._known: dict[int, Known] = {}
        self._mail = piggyback.Mail(session.micro_batches)

    def batches(self, step: OneStep) -> Iterator[Any]:
        for batch in step:
            if batch.contributes:
                yield self._collate(self._read(batch.number, step.number))
            else:
                # one of another rank's, here for its collectives only
                yield self._collate(
                    Stream(self._open, batch.number, self._session.micro_batches, None).read(
                        self._session.micro_batch_size
                    )
                )

    def _read(self, number: int, step: int) -> list[Any]:
        at, stream = self._opened.pop(number, (-1, None))
        # new to us, or read for a step that was never committed
        if stream is None or at != step:
            known = self._known.get(number, Known(0, {}))
            # the job went back further than what we know
            if known.step > step:
                known = Known(0, {})
            at = known.step
            stream = Stream(self._open, number, self._session.micro_batches, known.state or None)
        s = self._session
        for reading in range(at, step + 1):
            with random_state.apart(batch_assignment.random_seed(s.seed, reading, number, "data")):
                found = stream.read(s.micro_batch_size)
        self._opened[number] = (step + 1, stream)
        return found

    # --- what the session asks --------------------------------------------------------------------

    def pack_states(self, step: int) -> torch.Tensor:
        """What this rank says of its streams as they are before `step`: to be summed over all
        ranks, and given to `landed`."""
        mine = {
            number: stream
            for number, (at, stream) in self._opened.items()
            if at == step and self._owns(number)
        }
        # what another rank owns now is closed
        self._opened = {number: (step, stream) for number, stream in mine.items()}
        return self._mail.write(step, {number: stream.state for number, stream in mine.items()})

    def unpack_states(self, said: torch.Tensor) -> None:
        """`said`: the sum over all ranks, of a step that is committed."""
        for number, step, state in self._mail.read(said):
            self._known[number] = Known(step, state)

    def _owns(self, number: int) -> bool:
        s = self._session
        return number in batch_assignment.owned(s.rank, s.world, s.micro_batches)

    def state_dict(self) -> dict[str, Any]:
        known = [[number, known.step, known.state] for number, known in sorted(self._known.items())]
        return {"streams": self._session.micro_batches, "known": known}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError if the state is of another number of streams."""
        if (streams := self._session.micro_batches) != state["streams"]:
            raise ValueError(
                f"micro_batches is {streams} and the state is of {state['streams']} streams: "
                f"there is one for each, make them equal"
            )
        self._known = {number: Known(step, said) for number, step, said in state["known"]}
        self._opened = {}
        self._mail.forget()
