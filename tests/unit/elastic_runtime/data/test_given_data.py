"""What a script may give its session as data."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from elastic_runtime.data import given_data

NUMBERS = list(range(8))
GENERATOR = (
    "data has a generator, but the session's seed decides on order and random draws: leave the "
    "generator out, and give seed"
)


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield 0


class Unsized(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


class OwnIteration(DataLoader[Any]):
    def __iter__(self) -> Any:
        yield from NUMBERS


class OwnCollation(DataLoader[Any]):
    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, collate_fn=sum)


class Backwards(SequentialSampler):
    def __iter__(self) -> Iterator[int]:
        return reversed(range(len(self)))


def loader(**options: Any) -> "DataLoader[Any]":
    return DataLoader(NUMBERS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "given", "size"),
    [
        pytest.param(loader(batch_size=4), None, 4, id="a batch of the DataLoader"),
        pytest.param(loader(batch_size=4), 4, 4, id="given twice"),
        pytest.param(NUMBERS, None, 1, id="1 by default"),
        pytest.param(NUMBERS, 3, 3, id="given for a dataset"),
        pytest.param(None, 3, 3, id="given without data"),
    ],
)
def test_the_size_of_a_micro_batch(data: Any, given: int | None, size: int) -> None:
    assert given_data.micro_batch_size(data, given) == size
    assert not [*given_data.mistakes(data, None, given)]


@pytest.mark.parametrize(
    ("data", "samples", "size", "mistake"),
    [
        pytest.param(
            NUMBERS,
            8,
            None,
            "samples and data are both given: leave samples out",
            id="the length twice",
        ),
        pytest.param(
            lambda number, count, epoch: NUMBERS,
            8,
            None,
            "samples and data are both given: leave samples out",
            id="a length for streams, which have none",
        ),
        pytest.param(
            Endless(),
            None,
            None,
            "data is an IterableDataset, which has no samples by index: give data a function that "
            "opens streams",
            id="a dataset without index",
        ),
        pytest.param(
            loader(batch_size=4),
            None,
            2,
            "micro_batch_size is 2, and the batch_size of data 4: leave micro_batch_size out",
            id="two sizes",
        ),
        pytest.param(
            DataLoader(Endless()),
            None,
            None,
            "data has an IterableDataset, which has no samples by index: give data a function "
            "that opens streams",
            id="no index",
        ),
        pytest.param(
            OwnIteration(NUMBERS),  # type: ignore[arg-type]
            None,
            None,
            "data is a OwnIteration, whose own way to iterate the session would not use: give a "
            "torch.utils.data.DataLoader",
            id="a subclass that iterates in its own way",
        ),
        pytest.param(
            loader(worker_init_fn=print),
            None,
            None,
            "data has a worker_init_fn, which the session would not call: leave it out, and do in "
            "the dataset what it does",
            id="a function for loader workers",
        ),
        pytest.param(
            loader(shuffle=True, generator=torch.Generator()),
            None,
            None,
            GENERATOR,
            id="a generator",
        ),
        pytest.param(
            loader(sampler=RandomSampler(NUMBERS, generator=torch.Generator())),
            None,
            None,
            GENERATOR,
            id="a generator of the sampler",
        ),
        pytest.param(
            loader(batch_sampler=BatchSampler(SequentialSampler(NUMBERS), 4, drop_last=False)),
            None,
            None,
            "data has a batch_sampler or no batch_size: give it batch_size",
            id="batches of its own",
        ),
    ],
)
def test_a_mistake_is_one_line(
    data: Any, samples: int | None, size: int | None, mistake: str
) -> None:
    assert [*given_data.mistakes(data, samples, size)] == [mistake]


@pytest.mark.parametrize(
    "sampler",
    [
        pytest.param(SubsetRandomSampler([0, 1]), id="some samples"),
        pytest.param(SequentialSampler(NUMBERS[:4]), id="the first samples"),
        pytest.param(RandomSampler(NUMBERS, replacement=True), id="with replacement"),
        pytest.param(RandomSampler(NUMBERS, num_samples=4), id="a number of its own"),
        pytest.param(WeightedRandomSampler([1.0] * 8, 8), id="with weights"),
        pytest.param(Backwards(NUMBERS), id="a sequence of its own"),
    ],
)
def test_a_sampler_that_does_not_take_every_sample_once_is_refused(sampler: "Sampler[int]") -> None:
    (mistake,) = given_data.mistakes(loader(sampler=sampler), None, None)
    assert mistake == (
        f"data has a {type(sampler).__name__} of its own, but the session decides on the order, "
        "and takes every sample once in an epoch: leave the sampler out, and give a "
        "torch.utils.data.Subset if only some samples are wanted"
    )


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(loader(shuffle=True), id="shuffled"),
        pytest.param(loader(sampler=RandomSampler(NUMBERS)), id="a sampler of every sample"),
        pytest.param(loader(batch_size=4, drop_last=True), id="batches of a session are full"),
        pytest.param(
            loader(num_workers=2, persistent_workers=True), id="workers of a session persist"
        ),
        pytest.param(DataLoader(Unsized()), id="no length: refused by the session's loader"),
        pytest.param(OwnCollation(NUMBERS), id="a subclass that iterates as torch's"),
    ],
)
def test_what_a_session_does_too_is_no_mistake(given: "DataLoader[Any]") -> None:
    assert not [*given_data.mistakes(given, None, None)]


def test_all_options_of_a_loader_but_the_order_are_taken_over() -> None:
    given = loader(batch_size=4, shuffle=True, drop_last=True, num_workers=2, collate_fn=sum)
    options = given_data.loader_options(given)
    assert (options["num_workers"], options["collate_fn"]) == (2, sum)
    assert options["prefetch_factor"] == given.prefetch_factor
    assert not {"shuffle", "drop_last", "batch_size", "sampler"} & options.keys()
