"""The loader: the same samples and draws with any number of workers, through any resize."""

import gc
import random
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from elastic_runtime.data import batch_assignment, map_dataset
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.mistake import Mistake
from tests.builders.steps import SAMPLES, Plan, Step

MICRO_BATCHES = 5
SIZE = 3
SEED = 3


def plan(rank: int = 0, world: int = 1) -> Plan:
    return Plan(rank, world, SEED, SAMPLES, MICRO_BATCHES, SIZE)


class CountedStream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield 0

    def __len__(self) -> int:
        return 1


class Noisy:
    """Samples with their index and a draw from every generator."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> list[float]:
        return [float(index), random.random(), float(torch.rand(()))]  # noqa: S311


def as_list(samples: list[Any]) -> list[Any]:
    return samples


def indices_of(batch: Any) -> list[int]:
    return [int(sample[0]) for sample in batch]


def indices(batches: list[Any]) -> list[list[int]]:
    return [indices_of(batch) for batch in batches]


def expected_indices(step: int) -> list[list[int]]:
    """By micro-batch."""
    return [
        batch_assignment.samples(SEED, SAMPLES, step, number, MICRO_BATCHES, SIZE)
        for number in range(MICRO_BATCHES)
    ]


# The life of one rank: step, its rank, the world size. A step listed twice was not committed the
# first time.
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


def run_life(workers: int) -> list[list[Any]]:
    """The micro-batches of each step of `LIFE`."""
    session = plan()
    loader = Loader(session, Noisy(), num_workers=workers, collate_fn=as_list)
    batches = []
    for step, session.rank, session.world in LIFE:
        owned = batch_assignment.owned(session.rank, session.world, MICRO_BATCHES)
        batches.append(list(loader.batches(Step(step, owned))))
    return batches


def batches_of_new_rank(step: int, rank: int, world: int) -> list[Any]:
    """The micro-batches of a rank that joins at this step."""
    loader = Loader(plan(rank, world), Noisy(), collate_fn=as_list)
    owned = batch_assignment.owned(rank, world, MICRO_BATCHES)
    return list(loader.batches(Step(step, owned)))


def test_samples_and_draws_do_not_depend_on_workers_or_resizes() -> None:
    life = run_life(workers=0)
    assert life == run_life(workers=2)
    for (step, rank, world), batches in zip(LIFE, life, strict=True):
        owned = batch_assignment.owned(rank, world, MICRO_BATCHES)
        assert indices(batches) == [expected_indices(step)[number] for number in owned]
    assert LIFE[3] == (2, 1, 3)
    assert life[3] == batches_of_new_rank(2, 1, 3)


def test_every_sample_has_its_own_draws() -> None:
    # A step that is repeated has the same draws again.
    whole_steps = {
        step: batches
        for (step, _, world), batches in zip(LIFE, run_life(workers=0), strict=True)
        if world == 1
    }
    draws = {
        str(draw) for batches in whole_steps.values() for batch in batches for _, *draw in batch
    }
    assert len(draws) == len(whole_steps) * MICRO_BATCHES * SIZE


@pytest.mark.parametrize("owned", [range(2), range(0)])
def test_a_pass_that_does_not_contribute_takes_no_samples_from_others(owned: range) -> None:
    """It gets samples too."""
    loader = Loader(plan(), Noisy(), num_workers=1, collate_fn=as_list)
    for number in range(3):
        batches = indices(list(loader.batches(Step(number, owned, passes_without_weight=2))))
        assert batches[: len(owned)] == expected_indices(number)[: len(owned)]
        assert [len(batch) for batch in batches] == [SIZE] * (len(owned) + 2)


def test_a_micro_batch_that_is_read_by_itself_is_the_one_of_the_loop() -> None:
    """With its draws, and the loop goes on as before."""
    loader = Loader(plan(), Noisy(), num_workers=1, collate_fn=as_list)
    step = Step(0, range(2, 4))
    read = [loader.read(step, batch) for batch in step]
    assert read == list(loader.batches(step))


def test_fetching_leaves_the_generators_as_they_were() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    list(Loader(plan(), Noisy()).batches(Step(0, range(2))))
    assert torch.equal(torch.rand(3), expected)


def test_a_dropped_loader_is_freed_without_the_garbage_collector() -> None:
    """Otherwise its workers live until then, and the collector waits 5 s for each of them."""
    loader = Loader(plan(), Noisy(), num_workers=1, collate_fn=as_list)
    list(loader.batches(Step(0, range(2))))
    reference = weakref.ref(loader)
    gc.disable()
    try:
        del loader
        assert reference() is None
    finally:
        gc.enable()


def test_tensors_are_collated() -> None:
    dataset = TensorDataset(torch.zeros(SAMPLES, 4), torch.zeros(SAMPLES))
    (inputs, targets), *_ = Loader(plan(), dataset).batches(Step(0, range(1)))
    assert inputs.shape == (SIZE, 4)
    assert targets.shape == (SIZE,)


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        pytest.param(
            [1],
            {"shuffle": True, "batch_size": 4},
            "sets batch_size, shuffle itself: leave it out",
            id="options of the session",
        ),
        pytest.param([], {}, "dataset is empty", id="empty"),
        pytest.param(
            DataLoader(TensorDataset(torch.ones(1))),
            {},
            "pass its dataset to session.loader",
            id="DataLoader",
        ),
        pytest.param(
            iter([1]),
            {},
            "list_iterator has no length .*: give data or session.streams a function that opens",
            id="a stream",
        ),
        pytest.param(
            CountedStream(),
            {},
            "CountedStream has no length .*: give data or session.streams a function that opens",
            id="a stream that knows its length",
        ),
    ],
)
def test_what_a_loader_cannot_do_is_refused(
    dataset: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Mistake, match=message):
        Loader(plan(), dataset, **options)


def test_a_loader_iterated_by_itself_explains_its_use() -> None:
    loader = Loader(plan(), Noisy())
    with pytest.raises(Mistake, match=r"use `for batch in loader.batches\(step\)`"):
        print([*loader])


@pytest.mark.parametrize(
    ("chosen", "platform", "method"),
    [
        pytest.param(
            None, "linux", "fork", id="a script without a main part works with any Python"
        ),
        pytest.param("spawn", "linux", "spawn", id="the script has chosen"),
        pytest.param(None, "darwin", None, id="Python's default"),
    ],
)
def test_how_the_workers_of_a_loader_start(
    chosen: str | None, platform: str, method: str | None
) -> None:
    assert map_dataset.start_method(chosen, platform) == method
