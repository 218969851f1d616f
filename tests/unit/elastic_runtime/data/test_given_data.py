"""What a script may give its session as data."""

from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    SubsetRandomSampler,
)

from elastic_runtime.data import given_data

NUMBERS = list(range(8))


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield 0


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
            "samples and data are both given: leave samples out, the data has a length",
            id="the length twice",
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
            loader(sampler=SubsetRandomSampler([0, 1])),
            None,
            None,
            "data has a SubsetRandomSampler, but the session decides on the order of samples: "
            "leave the sampler out",
            id="an order of its own",
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


def test_all_options_of_a_loader_but_the_order_are_taken_over() -> None:
    given = loader(batch_size=4, shuffle=True, drop_last=True, num_workers=2, collate_fn=sum)
    options = given_data.loader_options(given)
    assert (options["num_workers"], options["collate_fn"]) == (2, sum)
    assert options["prefetch_factor"] == given.prefetch_factor
    assert not {"shuffle", "drop_last", "batch_size", "sampler"} & options.keys()
