"""A map-style dataset for an elastic job: torch's DataLoader, told which samples to fetch.

    loader = session.loader(dataset, num_workers=2)
    for step in session.steps(1000):
        for inputs, targets in loader.batches(step):
            step.backward(loss_of(model, inputs, targets))

Which samples a micro-batch holds, and every random draw made while they are fetched, are functions
of (seed, step, micro-batch); so what
workers have fetched ahead can be dropped when the job changes size, and is asked for again by
whoever needs it then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from elastic_runtime.data import batch_assignment, random_state

OURS = (
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "drop_last",
    "worker_init_fn",
    "generator",
    "persistent_workers",
)


class Sized(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


# the latter with a length, which torch's type does not say
Indexed = Sized | Dataset[Any]


class Numbered(Protocol):
    """A micro-batch, by its number in its step."""

    @property
    def number(self) -> int: ...
    @property
    def contributes(self) -> bool: ...


class OneStep(Protocol):
    """A step as the session hands it out."""

    number: int

    def __iter__(self) -> Iterator[Numbered]: ...


class Shares(Protocol):
    """What those who read data ask of the session."""

    seed: int
    micro_batches: int
    micro_batch_size: int

    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...


class Counted(Shares, Protocol):
    @property
    def samples(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Request:
    """One micro-batch as workers are asked for it. `plan`: how often the loader has changed its
    mind about what comes next."""

    plan: int
    step: int
    micro_batch: int
    seed: int
    indices: Sequence[int]


class Fetcher:
    """The dataset as a worker sees it: a request in, its micro-batch out."""

    def __init__(self, dataset: Indexed, collate: Callable[[list[Any]], Any]) -> None:
        self.dataset = dataset
        self.collate = collate

    def __getitem__(self, asked: Request) -> tuple[Request, Any]:
        if not asked.indices:
            return asked, None
        with random_state.apart(asked.seed):
            many = getattr(self.dataset, "__getitems__", None)
            found = (
                many(list(asked.indices))
                if many
                else [self.dataset[index] for index in asked.indices]
            )
            return asked, self.collate(found)


class Loader:
    """`batches(step)` gives this rank's micro-batches, collated, in the order of their numbers.

    `options` are DataLoader's own (num_workers, collate_fn, pin_memory, prefetch_factor, ...). What
    decides on the order of samples or on
    randomness is the session's: giving it raises TypeError. Workers are started here, before the
    job has any connection they could inherit.
    """

    def __init__(self, session: Counted, dataset: Indexed, **options: Any) -> None:
        if taken := sorted(set(options) & set(OURS)):
            raise TypeError(f"session.loader decides on {', '.join(taken)} itself: leave it out")
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(
                f"{type(dataset).__name__} has no length or no [index]: give what can only be "
                f"iterated to session.streams"
            )
        self.samples = len(dataset)
        if not self.samples:
            raise ValueError(
                "the dataset is empty: session.loader needs one with at least 1 sample"
            )
        self._session, self._dataset, self._plan = (
            session,
            Fetcher(dataset, options.pop("collate_fn", None) or default_collate),
            0,
        )
        # (step, micro-batch) still to be asked for, endless once a step was seen
        self._ahead: Iterator[tuple[int, int]] = iter(())
        # the one that the next call will want, if nothing changes
        self._next: tuple[int, int] | None = None
        self._world = (0, 0)
        loader: DataLoader[Any] = DataLoader(
            self._dataset,  # type: ignore[arg-type]  # its indices are requests
            batch_size=None,
            sampler=self._asked(),
            collate_fn=_as_it_is,
            generator=torch.Generator(),
            persistent_workers=bool(options.get("num_workers")),
            **options,
        )
        self._fetched = iter(loader)

    def batches(self, step: OneStep) -> Iterator[Any]:
        found = None
        for batch in step:
            if batch.contributes:
                found = self._get(step.number, batch.number)
            elif found is None:
                # nothing of our own in this step, and any sample will do
                found = self._dataset[self._request(step.number, batch.number)][1]
            yield found

    def _get(self, step: int, micro_batch: int) -> Any:
        """What was fetched ahead for this micro-batch; all that was fetched for another job size is
        dropped on the way to it."""
        s = self._session
        if self._next != (step, micro_batch) or self._world != (s.rank, s.world):
            self._plan = self._plan + 1
            self._world = (s.rank, s.world)
            self._ahead = self._from(step, micro_batch)
        while True:
            asked, found = next(self._fetched)
            if asked.plan == self._plan:
                self._next = self._after(step, micro_batch)
                return found

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "a loader is not gone through by itself: take `for batch in loader.batches(step)`, "
            "within "
            "`for step in session.steps(...)`"
        )

    def _asked(self) -> Iterator[Request]:
        """What to fetch, without end; read by the DataLoader as far ahead as its workers go."""
        while True:
            step, number = next(self._ahead, (-1, -1))
            # not known yet what this rank will need
            yield self._request(step, number) if step >= 0 else Request(0, step, number, 0, ())

    def _request(self, step: int, number: int) -> Request:
        s = self._session
        indices = batch_assignment.samples(
            s.seed, s.samples, step, number, s.micro_batches, s.micro_batch_size
        )
        return Request(
            self._plan,
            step,
            number,
            batch_assignment.random_seed(s.seed, step, number, "data"),
            indices,
        )

    def _from(self, step: int, micro_batch: int) -> Iterator[tuple[int, int]]:
        mine = batch_assignment.owned(*self._world, self._session.micro_batches)
        yield from ((step, number) for number in mine if number >= micro_batch)
        while True:
            step += 1
            yield from ((step, number) for number in mine)

    def _after(self, step: int, micro_batch: int) -> tuple[int, int]:
        mine = batch_assignment.owned(*self._world, self._session.micro_batches)
        return (step, micro_batch + 1) if micro_batch + 1 in mine else (step + 1, mine.start)


def _as_it_is(fetched: Any) -> Any:
    return fetched
