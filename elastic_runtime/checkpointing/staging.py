"""Copies the pieces that a rank is about to write into memory that it keeps from save to save."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.partition import Piece

ALIGNMENT_BYTES = 64


def _aligned_size(piece: Piece) -> int:
    size = piece.tensor.numel() * piece.tensor.element_size()
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def without_copy(pieces: Sequence[Piece]) -> list[Piece]:
    """The live pieces, each in a storage of its own size. Valid until the next step.

    Only what is not in the CPU's memory is copied.
    """
    live = []
    for piece in pieces:
        tensor = piece.tensor.cpu().contiguous()
        start = tensor.storage_offset() * tensor.element_size()
        storage = tensor.untyped_storage()[start : start + tensor.nbytes]
        alone = torch.empty(0, dtype=tensor.dtype)
        alone.set_(storage, 0, tensor.shape)  # type: ignore[call-overload]
        live.append(replace(piece, tensor=alone))
    return live


class StagingBuffer:
    """Memory for the pieces of one save. Every page is touched before it is needed."""

    def __init__(self) -> None:
        self._memory = direct_io.hugepage_buffer(ALIGNMENT_BYTES)

    def reserve(self, pieces: Sequence[Piece]) -> None:
        """Afterwards these pieces fit, and to copy them causes no page fault."""
        size = sum(_aligned_size(piece) for piece in pieces)
        if size > len(self._memory):
            self._memory = direct_io.hugepage_buffer(size)
            torch.frombuffer(self._memory, dtype=torch.uint8).zero_()

    def copy(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces as they are now, each in a storage of its own size, until the next copy."""
        self.reserve(pieces)
        copies = []
        offset = 0
        for piece in pieces:
            tensor = piece.tensor
            count = tensor.numel()
            memory = torch.empty(0, dtype=tensor.dtype)
            if count:
                memory = torch.frombuffer(
                    self._memory, dtype=tensor.dtype, count=count, offset=offset
                )
            copies.append(replace(piece, tensor=memory.view(tensor.shape).copy_(tensor)))
            offset += _aligned_size(piece)
        return copies
