"""Replicas that are not equal bit by bit are found and named."""

import pytest
import torch

from elastic_runtime.training.replica_check import (
    differing_ranks,
    is_due,
    no_digest,
    own_digest,
)


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    # 7 elements are no whole number of 64-bit words.
    return [torch.randn(shape, generator=generator).to(dtype) for shape in ((7,), (3, 5), (1,))]


def vote(*ranks: list[torch.Tensor]) -> torch.Tensor:
    """What all ranks have after the vote."""
    digests = [own_digest(tensors, rank, len(ranks)) for rank, tensors in enumerate(ranks)]
    return torch.stack(digests).sum(0)


def with_smallest_change(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    changed = [tensor.clone() for tensor in tensors]
    changed[0].view(torch.uint8)[0] ^= 1
    return changed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_one_bit_is_seen(dtype: torch.dtype) -> None:
    same = parameters(dtype)
    other = with_smallest_change(same)
    assert differing_ranks(vote(same, same, same), 0) == []
    assert differing_ranks(vote(same, other, same), 0) == [1]


def test_two_parameters_that_were_exchanged_are_seen() -> None:
    same = parameters()
    assert differing_ranks(vote(same, same, same[::-1]), 0) == [2]


def test_without_a_majority_all_are_named() -> None:
    same = parameters()
    assert differing_ranks(vote(same, with_smallest_change(same)), 0) == [0, 1]


def test_a_rank_alone_differs_from_nobody() -> None:
    assert differing_ranks(vote(parameters()), 0) == []


def test_ranks_of_a_sharded_model_are_compared_with_those_of_the_same_shard() -> None:
    first = parameters()
    second = parameters()[::-1]
    assert differing_ranks(vote(first, second, first, second), 2) == []
    changed = with_smallest_change(second)
    assert differing_ranks(vote(first, second, first, changed, first, second), 2) == [3]
    assert differing_ranks(vote(first, second), 2) == [], "nobody else has these rows"


def test_a_tensor_that_is_not_contiguous_counts_by_its_elements() -> None:
    matrix = torch.randn(4, 6)
    strided = matrix.t().contiguous().t()
    assert torch.equal(own_digest([matrix], 0, 1), own_digest([strided], 0, 1))


def test_parameters_that_share_one_vector_count_by_their_elements() -> None:
    """The second begins after 7 floats, which is no whole number of words."""
    same = parameters()
    vector = torch.nn.utils.parameters_to_vector(same)
    views = [tensor.clone() for tensor in same]
    torch.nn.utils.vector_to_parameters(vector, views)
    assert views[1].storage_offset() == 7
    assert torch.equal(own_digest(views, 0, 1), own_digest(same, 0, 1))


def test_a_rank_without_a_digest_is_not_compared() -> None:
    same = parameters()
    digests = [own_digest(same, rank, 4) for rank in range(2)]
    other = own_digest(with_smallest_change(same), 3, 4)
    votes = torch.stack([*digests, no_digest(4), other]).sum(0)
    assert differing_ranks(votes, 0) == [3]
    assert differing_ranks(no_digest(4), 0) == []


def test_it_is_due_now_and_then() -> None:
    assert [step for step in range(120) if is_due(step)] == [0, 50, 100]
