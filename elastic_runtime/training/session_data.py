"""`session.loader` and `session.streams`, and what `Session(data=...)` makes of its argument.

The session refers to its data, so the data refers to it weakly. A cycle would keep the loop in use
when a notebook has dropped its session, until the garbage collector runs.
"""

import weakref
from typing import Any, Protocol, cast

from torch.utils.data import DataLoader

from elastic_runtime.data import given_data, samples_digest
from elastic_runtime.data.given_data import Data
from elastic_runtime.data.map_dataset import OTHER_DATA, DatasetPlan, Indexed, Loader
from elastic_runtime.data.streams import OpenStream, Streams
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.state import TrainingState
from elastic_runtime.training.transaction import StepTransaction


class DataSession(DatasetPlan, Protocol):
    """What the data of a session needs of it."""

    _state: TrainingState
    _transaction: StepTransaction


def loader(self: DataSession, dataset: Indexed, **options: Any) -> Loader:
    """Micro-batches of a map-style dataset.

    A further loader may read the same samples in another way. Other data is evaluated by
    `session.evaluate`.

    Args:
        dataset: with a length, and samples by index.
        options: DataLoader's, such as num_workers, collate_fn and pin_memory.

    Returns:
        a Loader for the loop over steps.

    Raises:
        ValueError: for an empty dataset, one without a length, one with another number of samples
            than the session has, and an option that decides on the order of samples or on
            randomness; beside streams.
    """
    if self._transaction.streams:
        raise Mistake(f"the session trains on samples of streams: {OTHER_DATA}")
    made = Loader(weakref.proxy(self), dataset, **options)
    self._state.data.samples = made.samples
    # A script may make further loaders later, which a worker that joins has not made yet.
    self._state.samples_digest = self._state.samples_digest or samples_digest.compute(dataset)
    return made


def streams(self: DataSession, open_stream: OpenStream, **options: Any) -> Streams:
    """Micro-batches of data that can only be read in sequence.

    Args:
        open_stream: called with (number, count, epoch), it returns the samples of that stream.
        options: only `collate_fn`, as DataLoader's.

    Returns:
        Streams for the loop over steps.

    Raises:
        ValueError: if the session has other streams, a loader or `samples` already.
    """
    if self._transaction.streams or self.samples:
        raise Mistake(
            "the session has data already, and streams would replace it: give it only one of data, "
            f"samples, session.loader and session.streams, and {OTHER_DATA}"
        )
    made = Streams(weakref.proxy(self), open_stream, **options)
    self._transaction.streams = made
    self._state.stateful.append(made)
    return made


def source_of(session: DataSession, data: Data) -> Loader | Streams:
    """Of the session's argument `data`, for `step.data`. Raises Mistake if it is none of these."""
    if isinstance(data, DataLoader):
        return loader(session, data.dataset, **given_data.loader_options(data))
    if given_data.opens_streams(data):
        return streams(session, data)
    return loader(session, cast("Indexed", data))
