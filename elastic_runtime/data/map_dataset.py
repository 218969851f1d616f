"""A map-style dataset for an elastic job: torch's DataLoader, told which samples to fetch.

    loader = session.loader(dataset, num_workers=2)
    for step in session.steps(1000):
        for inputs, targets in loader.batches(step):
            step.backward(loss_of(model, inputs, targets))

The samples of a micro-batch, and every random draw made while they are fetched, depend only on
(seed, step, micro-batch). So what workers have fetched ahead can be dropped when the job changes
size: the rank that needs it then fetches it again.
"""

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from elastic_runtime.data import batch_assignment, random_state
from elastic_runtime.mistake import Mistake

# Options of DataLoader that decide on the order of samples or on randomness.
SESSION_OPTIONS = frozenset(
    {
        "batch_size",
        "shuffle",
        "sampler",
        "batch_sampler",
        "drop_last",
        "worker_init_fn",
        "generator",
        "persistent_workers",
    }
)
# What to do with data beside that of the steps.
OTHER_DATA = "evaluate other data by session.evaluate(dataset, function)"


class Sized(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


# torch's Dataset has a length, which its type does not show.
Indexed = Sized | Dataset[Any]


class NumberedBatch(Protocol):
    """A micro-batch of a step."""

    # In the step, over all ranks.
    @property
    def number(self) -> int: ...

    # As in training.step.Batch.
    @property
    def contributes(self) -> bool: ...


class OneStep(Protocol):
    """A step, as the session yields it to the script."""

    @property
    def number(self) -> int: ...
    def __iter__(self) -> Iterator[NumberedBatch]: ...


class BatchPlan(Protocol):
    """What a data source reads from the session."""

    @property
    def seed(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def micro_batch_size(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...


class DatasetPlan(BatchPlan, Protocol):
    @property
    def samples(self) -> int:
        """The size of the dataset."""


@dataclass(frozen=True, slots=True)
class Request:
    """One micro-batch, as a worker is asked for it.

    `plan`: how often the loader had changed what it fetches ahead.
    """

    plan: int
    step: int
    micro_batch: int
    seed: int
    # Empty: nothing is to be fetched.
    indices: Sequence[int]


class RequestDataset:
    """The dataset as a worker sees it: indexed by a request, it returns the micro-batch."""

    def __init__(self, dataset: Indexed, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset = dataset
        self.collate = collate

    def __getitem__(self, request: Request) -> tuple[Request, Any]:
        if not request.indices:
            return request, None
        with random_state.isolated(request.seed):
            return request, self.collate(self.fetch(list(request.indices)))

    def fetch(self, indices: list[int]) -> list[Any]:
        # torch's name for a method that fetches many samples at once.
        fetch_many = getattr(self.dataset, "__getitems__", None)
        if fetch_many:
            samples: list[Any] = fetch_many(indices)
            return samples
        return [self.dataset[index] for index in indices]


class Requests:
    """What this rank will need, without end: the sampler of the DataLoader.

    It does not refer to the Loader. A cycle through the DataLoader's iterator would keep its
    workers until the garbage collector runs, which then waits 5 s for each of them.
    """

    def __init__(self, session: DatasetPlan) -> None:
        self._session = session
        # Grows with every restart: what was fetched for an older plan is dropped.
        self.plan = 0
        # The rank and world size that `_ahead` is for.
        self.rank_and_world = (0, 0)
        # (step, micro-batch) still to be requested; endless once a step has begun
        self._ahead: Iterator[tuple[int, int]] = iter(())

    def restart(self, step: int, micro_batch: int, rank_and_world: tuple[int, int]) -> None:
        """From here on, requests begin with this micro-batch, for this rank and world size."""
        self.plan += 1
        self.rank_and_world = rank_and_world
        self._ahead = self._from(step, micro_batch)

    def __iter__(self) -> Iterator[Request]:
        """The DataLoader reads it as far ahead as its workers go."""
        while True:
            step, number = next(self._ahead, (-1, -1))
            if step >= 0:
                yield self.request(step, number)
            else:
                # It is not known yet what this rank will need.
                yield Request(0, step, number, 0, ())

    def request(self, step: int, number: int) -> Request:
        session = self._session
        indices = batch_assignment.samples(
            session.seed,
            session.samples,
            step,
            number,
            session.micro_batches,
            session.micro_batch_size,
        )
        seed = batch_assignment.random_seed(session.seed, step, number, "data")
        return Request(self.plan, step, number, seed, indices)

    def after(self, step: int, micro_batch: int) -> tuple[int, int]:
        """The (step, micro-batch) of this rank that follows this one."""
        owned = self._owned()
        if micro_batch + 1 in owned:
            return step, micro_batch + 1
        return step + 1, owned.start

    def _from(self, step: int, micro_batch: int) -> Iterator[tuple[int, int]]:
        """(step, micro-batch) of this rank from here on, without end."""
        owned = self._owned()
        yield from ((step, number) for number in owned if number >= micro_batch)
        while True:
            step += 1
            yield from ((step, number) for number in owned)

    def _owned(self) -> range:
        return batch_assignment.owned(*self.rank_and_world, self._session.micro_batches)


class Loader:
    """`batches(step)` yields this rank's micro-batches of a step, collated, in order.

    `session.loader` makes it. Its workers are started then, before the job has any connection that
    they could inherit.
    """

    def __init__(self, session: DatasetPlan, dataset: Indexed, **options: Any) -> None:
        if refused := sorted(SESSION_OPTIONS & options.keys()):
            raise Mistake(f"session.loader sets {', '.join(refused)} itself: leave it out")
        if isinstance(dataset, IterableDataset) or not (
            hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
        ):
            cure = "give data or session.streams a function that opens streams"
            if isinstance(dataset, DataLoader):
                cure = "pass its dataset to session.loader"
            raise Mistake(f"{type(dataset).__name__} has no length or no [index]: {cure}")
        self.samples = len(dataset)
        if not self.samples:
            raise Mistake("the dataset is empty: session.loader needs one with at least 1 sample")
        if session.samples not in (0, self.samples):
            raise Mistake(
                f"this loader has {self.samples} samples, and the session trains on "
                f"{session.samples}: {OTHER_DATA}"
            )
        self._session = session
        if options.get("num_workers") and options.get("multiprocessing_context") is None:
            chosen = multiprocessing.get_start_method(allow_none=True)
            options["multiprocessing_context"] = start_method(chosen, sys.platform)
        collate = options.pop("collate_fn", None) or default_collate
        self._dataset = RequestDataset(dataset, collate)
        self._requests = Requests(session)
        # The micro-batch that the script takes next if the job does not change.
        self._next: tuple[int, int] | None = None
        loader: DataLoader[Any] = DataLoader(
            self._dataset,  # type: ignore[arg-type]
            batch_size=None,
            sampler=iter(self._requests),
            collate_fn=_unchanged,
            generator=torch.Generator(),
            persistent_workers=bool(options.get("num_workers")),
            **options,
        )
        self._fetched = iter(loader)

    def batches(self, step: OneStep) -> Iterator[Any]:
        """This rank's micro-batches of a step.

        Args:
            step: the step in flight.

        Returns:
            an iterator over them, in the order of their numbers, collated.
        """
        samples = None
        for batch in step:
            if batch.contributes:
                samples = self._take(step.number, batch.number)
            elif samples is None:
                # This rank has no micro-batch in this step, and any samples will do.
                samples = self.read(step, batch)
            yield samples

    def read(self, step: OneStep, batch: NumberedBatch) -> Any:
        """One micro-batch, in this process: the samples and draws that `batches` yields for it.

        Args:
            step: the step in flight.
            batch: a micro-batch of it, such as the function of `step.gather_batch` gets.

        Returns:
            its samples, collated.
        """
        return self._dataset[self._requests.request(step.number, batch.number)][1]

    def _take(self, step: int, micro_batch: int) -> Any:
        """The samples of this micro-batch; drops those that were fetched for another job size."""
        rank_and_world = (self._session.rank, self._session.world)
        requests = self._requests
        if self._next != (step, micro_batch) or requests.rank_and_world != rank_and_world:
            requests.restart(step, micro_batch, rank_and_world)
        while True:
            request, samples = next(self._fetched)
            if request.plan == requests.plan:
                self._next = requests.after(step, micro_batch)
                return samples

    def __iter__(self) -> Iterator[Any]:
        raise Mistake(
            "a loader cannot be iterated by itself: use `for batch in loader.batches(step)` inside "
            "`for step in session.steps(...)`"
        )


def _unchanged(fetched: Any) -> Any:
    return fetched


def start_method(chosen: str | None, platform: str) -> str | None:
    """Of a loader's workers; None: Python's default. `chosen`: by the script, for all processes.

    From Python 3.14 on the default on Linux runs the whole script once more in every worker.
    """
    return "fork" if chosen is None and platform == "linux" else chosen
