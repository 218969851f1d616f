"""The loader: the same samples and the same draws with any number of workers and through any change
of size."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from elastic_runtime.data import batch_assignment
from elastic_runtime.data.map_dataset import Loader

SAMPLES = 23
MICRO_BATCHES = 5
SIZE = 3


@dataclass
class Session:
    rank: int = 0
    world: int = 1
    seed: int = 3
    samples: int = SAMPLES
    micro_batches: int = MICRO_BATCHES
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


class Noisy:
    """Samples by their index, each with draws from every generator."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> list[float]:
        return [float(index), random.random(), float(torch.rand(()))]  # noqa: S311


def as_list(samples: list[Any]) -> list[Any]:
    return samples


def expected(step: int) -> list[list[int]]:
    return [
        batch_assignment.samples(3, SAMPLES, step, number, MICRO_BATCHES, SIZE)
        for number in range(MICRO_BATCHES)
    ]


# One rank's life: at each step, its rank and the world's size; a step named twice was not committed
# the first time.
LIFE = [
    (0, 0, 1),
    (1, 0, 1),
    (2, 1, 2),
    (2, 1, 3),
    (3, 1, 3),
    (4, 2, 3),
    (5, 6, 7),
    (6, 0, 2),
    (7, 0, 1),
    (7, 0, 1),
]


def live(loader: Loader, session: Session) -> list[list[Any]]:
    found = []
    for step, session.rank, session.world in LIFE:
        mine = batch_assignment.owned(session.rank, session.world, MICRO_BATCHES)
        found.append(list(loader.batches(Step(step, mine))))
    return found


def test_every_micro_batch_is_the_one_asked_for_with_its_own_draws_whatever_the_workers() -> None:
    lives = []
    for workers in (0, 2):
        session = Session()
        loader = Loader(session, Noisy(), num_workers=workers, collate_fn=as_list)
        lives.append(live(loader, session))
    assert lives[0] == lives[1]
    for (step, rank, world), found in zip(LIFE, lives[0], strict=True):
        mine = batch_assignment.owned(rank, world, MICRO_BATCHES)
        assert [[int(sample[0]) for sample in batch] for batch in found] == [
            expected(step)[number] for number in mine
        ]
    whole = {
        step: found for (step, rank, world), found in zip(LIFE, lives[0], strict=True) if world == 1
    }
    assert LIFE[3] == (2, 1, 3)
    assert lives[0][3] == of_a_newcomer(2, 1, 3)
    assert (
        len({str(draws) for found in whole.values() for batch in found for _, *draws in batch})
        == len(whole) * MICRO_BATCHES * SIZE
    )


def of_a_newcomer(step: int, rank: int, world: int) -> list[Any]:
    """A rank's micro-batches of a step, when it was never anything else."""
    session = Session(rank, world)
    return list(
        Loader(session, Noisy(), collate_fn=as_list).batches(
            Step(step, batch_assignment.owned(rank, world, MICRO_BATCHES))
        )
    )


@pytest.mark.parametrize("mine", [range(2), range(0)])
def test_a_pass_that_does_not_count_gets_samples_and_takes_none_from_those_that_do(
    mine: range,
) -> None:
    session = Session()
    loader = Loader(session, Noisy(), num_workers=1, collate_fn=as_list)
    for number in range(3):
        given = [
            [int(sample[0]) for sample in batch] for batch in loader.batches(Step(number, mine, more=2))
        ]
        assert given[: len(mine)] == expected(number)[: len(mine)]
        assert [len(batch) for batch in given] == [SIZE] * (len(mine) + 2)


def test_fetching_leaves_the_generators_as_they_were() -> None:
    torch.manual_seed(1)
    untouched = torch.rand(3)
    torch.manual_seed(1)
    list(Loader(Session(), Noisy()).batches(Step(0, range(2))))
    assert torch.equal(torch.rand(3), untouched)


def test_tensors_come_collated() -> None:
    (inputs, targets), *_ = Loader(
        Session(), TensorDataset(torch.zeros(SAMPLES, 4), torch.zeros(SAMPLES))
    ).batches(Step(0, range(1)))
    assert (inputs.shape, targets.shape) == ((SIZE, 4), (SIZE,))


@pytest.mark.parametrize(
    ("dataset", "options", "error", "complaint"),
    [
        pytest.param(
            [1],
            {"shuffle": True, "batch_size": 4},
            TypeError,
            "decides on batch_size, shuffle itself: leave it out",
            id="ours",
        ),
        pytest.param([], {}, ValueError, "dataset is empty", id="empty"),
        pytest.param(
            iter([1]),
            {},
            TypeError,
            "list_iterator has no length .* session.streams",
            id="a stream",
        ),
    ],
)
def test_what_a_loader_cannot_do_is_said(
    dataset: Any, options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        Loader(Session(), dataset, **options)


def test_a_loader_that_is_gone_through_by_itself_says_how_it_is_done() -> None:
    loader = Loader(Session(), Noisy())
    with pytest.raises(TypeError, match=r"take `for batch in loader.of\(step\)`"):
        print([*loader])
