"""Memory for what a rank is about to write: kept from save to save, every page of it touched before
it is needed."""

import mmap
from collections.abc import Sequence
from dataclasses import replace

import torch

from elastic_runtime.checkpointing.partition import Piece

# bytes
ALIGN = 64


def _room(piece: Piece) -> int:
    return -(-piece.tensor.numel() * piece.tensor.element_size() // ALIGN) * ALIGN


def as_they_are(pieces: Sequence[Piece]) -> list[Piece]:
    """The live pieces, each in a storage of its own size, for as long as nobody trains; what is not
    in the CPU's memory is copied."""
    found = []
    for piece in pieces:
        tensor = piece.tensor.cpu().contiguous()
        begin = tensor.storage_offset() * tensor.element_size()
        size = tensor.nbytes
        own = torch.empty(0, dtype=tensor.dtype).set_(
            tensor.untyped_storage()[begin : begin + size], 0, tensor.shape
        )  # type: ignore[call-overload]
        found.append(replace(piece, tensor=own))
    return found


class Stage:
    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ALIGN)

    def reserve(self, pieces: Sequence[Piece]) -> None:
        """Afterwards these fit, and a copy of them meets no page that is not there yet."""
        size = sum(_room(piece) for piece in pieces)
        if size > len(self._memory):
            self._memory = mmap.mmap(-1, size)
            torch.frombuffer(self._memory, dtype=torch.uint8).zero_()

    def copy(self, pieces: Sequence[Piece]) -> list[Piece]:
        """The pieces as they are now, each in a storage of its own size; good until the next
        copy."""
        self.reserve(pieces)
        staged = []
        offset = 0
        for piece in pieces:
            tensor = piece.tensor
            count = piece.tensor.numel()
            made = torch.empty(0, dtype=tensor.dtype)
            if count:
                made = torch.frombuffer(
                    self._memory, dtype=tensor.dtype, count=count, offset=offset
                )
            staged.append(replace(piece, tensor=made.view(tensor.shape).copy_(tensor)))
            offset += _room(piece)
        return staged
