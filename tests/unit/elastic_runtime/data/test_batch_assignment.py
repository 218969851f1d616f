"""Every sample comes exactly once an epoch, in the same order at every size of the job."""

from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data import batch_assignment


@given(world=st.integers(1, 64), micro_batches=st.integers(1, 64))
def test_every_micro_batch_has_one_owner_and_ranks_differ_by_at_most_one(
    world: int, micro_batches: int
) -> None:
    owned = [batch_assignment.owned(rank, world, micro_batches) for rank in range(world)]
    assert [number for numbers in owned for number in numbers] == list(range(micro_batches))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


@given(n=st.integers(1, 300), seed=st.integers(0, 99), epoch=st.integers(0, 5))
def test_an_epoch_is_a_permutation(n: int, seed: int, epoch: int) -> None:
    order = [batch_assignment.permute(seed, epoch, position, n) for position in range(n)]
    assert sorted(order) == list(range(n))


def samples_of_job(worlds: list[int], dataset: int) -> list[int]:
    """All samples in order, of a job that has `worlds[i]` ranks in step i."""
    return [
        sample
        for step, world in enumerate(worlds)
        for rank in range(world)
        for batch in batch_assignment.owned(rank, world, 5)
        for sample in batch_assignment.samples(7, dataset, step, batch, 5, 3)
    ]


@given(worlds=st.lists(st.integers(1, 9), min_size=1, max_size=12), dataset=st.integers(1, 60))
def test_any_sequence_of_sizes_has_the_same_samples_in_the_same_order(
    worlds: list[int], dataset: int
) -> None:
    samples = samples_of_job(worlds, dataset)
    assert samples == samples_of_job([1] * len(worlds), dataset)
    for epoch in range(len(samples) // dataset):
        assert sorted(samples[epoch * dataset :][:dataset]) == list(range(dataset))


def test_epochs_differ_in_order() -> None:
    def order(epoch: int) -> list[int]:
        return [batch_assignment.permute(0, epoch, position, 100) for position in range(100)]

    assert order(0) != order(1)


def test_random_seeds_differ_by_step_and_micro_batch() -> None:
    seeds = {
        batch_assignment.random_seed(0, step, batch) for step in range(50) for batch in range(50)
    }
    assert len(seeds) == 2500
