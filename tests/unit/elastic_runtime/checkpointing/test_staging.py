"""Pieces keep their values while training goes on."""

import torch

from elastic_runtime.checkpointing.partition import Piece
from elastic_runtime.checkpointing.staging import StagingBuffer, without_copy


def piece(tensor: torch.Tensor) -> Piece:
    return Piece("model.w", tensor, (0,) * tensor.ndim, tuple(tensor.shape))


def test_a_copy_keeps_its_values_and_has_a_storage_of_its_own_size() -> None:
    live = [torch.arange(6.0).view(2, 3), torch.tensor(7), torch.empty(0, 4)]
    expected = [tensor.clone() for tensor in live]
    copies = StagingBuffer().copy([piece(tensor) for tensor in live])
    for tensor in live:
        tensor.zero_()
    for copied, tensor in zip(copies, expected, strict=True):
        assert torch.equal(copied.tensor, tensor)
        # torch.save writes whole storages.
        assert copied.tensor.untyped_storage().nbytes() == tensor.nbytes


def test_a_piece_without_copy_is_the_live_memory_and_no_more_of_it() -> None:
    whole = torch.arange(12.0).view(4, 3)
    [alone] = without_copy([piece(whole[1:3])])
    assert alone.tensor.data_ptr() == whole[1:3].data_ptr()
    assert alone.tensor.untyped_storage().nbytes() == whole[1:3].nbytes
    assert torch.equal(alone.tensor, whole[1:3])
