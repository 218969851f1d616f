"""Every sample exactly once an epoch, in the same order at every size."""

from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.data import batch_assignment


@given(world=st.integers(1, 64), micro_batches=st.integers(1, 64))
def test_ranks_share_the_micro_batches_evenly_and_whole(world: int, micro_batches: int) -> None:
    parts = [batch_assignment.owned(rank, world, micro_batches) for rank in range(world)]
    assert [i for part in parts for i in part] == list(range(micro_batches))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(n=st.integers(1, 300), seed=st.integers(0, 99), epoch=st.integers(0, 5))
def test_an_epoch_is_a_permutation(n: int, seed: int, epoch: int) -> None:
    assert sorted(batch_assignment.permute(seed, epoch, i, n) for i in range(n)) == list(range(n))


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), dataset=st.integers(1, 60))
def test_any_sequence_of_sizes_sees_the_same_samples_in_the_same_order(
    sizes: list[int], dataset: int
) -> None:
    def seen(worlds: list[int]) -> list[int]:
        return [
            sample
            for step, world in enumerate(worlds)
            for rank in range(world)
            for batch in batch_assignment.owned(rank, world, 5)
            for sample in batch_assignment.samples(7, dataset, step, batch, 5, 3)
        ]

    found = seen(sizes)
    assert found == seen([1] * len(sizes))
    whole = len(found) // dataset
    for epoch in range(whole):
        assert sorted(found[epoch * dataset : (epoch + 1) * dataset]) == list(range(dataset))


def test_epochs_differ_in_order() -> None:
    assert [batch_assignment.permute(0, 0, i, 100) for i in range(100)] != [
        batch_assignment.permute(0, 1, i, 100) for i in range(100)
    ]


def test_random_seeds_differ_by_step_and_micro_batch() -> None:
    assert (
        len(
            {
                batch_assignment.random_seed(0, step, batch)
                for step in range(50)
                for batch in range(50)
            }
        )
        == 2500
    )
