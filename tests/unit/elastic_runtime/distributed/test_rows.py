"""Rows of all ranks are gathered, whatever their number and type."""

import pytest
import torch

from elastic_runtime.distributed.group import Group
from elastic_runtime.distributed.rows import all_gather_rows
from tests.harness.thread_ranks import run_ranks


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.int16, torch.bool, torch.complex64], ids=str
)
def test_rows_are_those_of_all_ranks_by_rank(dtype: torch.dtype) -> None:
    # (rows, 2, 3): rank 1 has none
    tensors = [torch.arange(6 * n).view(n, 2, 3).to(dtype) for n in (2, 0, 3)]

    def body(group: Group) -> torch.Tensor:
        own = tensors[group.rank]
        return all_gather_rows(group, own.transpose(1, 2).contiguous().transpose(1, 2))

    for gathered in run_ranks(3, body):
        assert gathered.dtype == dtype
        assert torch.equal(gathered, torch.cat(tensors))


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)], ids=["no rows", "empty rows"])
def test_nothing_is_gathered_as_nothing(shape: tuple[int, ...]) -> None:
    gathered = run_ranks(2, lambda group: all_gather_rows(group, torch.zeros(shape)))
    assert {tuple(tensor.shape) for tensor in gathered} == {(2 * shape[0], shape[1])}
