"""Where the bytes of a checkpoint go: into the tensors of a state, or into some rows of them."""

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.direct_io import Target
from elastic_runtime.checkpointing.save_format import (
    SKELETON,
    Manifest,
    StoredPiece,
    StoredTensor,
)
from elastic_runtime.state.destination import Destination, row_count
from elastic_runtime.state.state_tree import State, can_hold, unflatten, unpack


class _Rows(NamedTuple):
    """Rows of a tensor, from `first` on, and their bytes for as long as they live."""

    tensor: torch.Tensor
    memory: memoryview
    first: int

    def of_piece(self, piece: StoredTensor) -> tuple[int, int]:
        """[first, last) of the rows that a piece has of these."""
        begin = piece.offsets[0] if piece.offsets else 0
        last = min(begin + row_count(piece.rows), self.first + row_count(self.tensor.shape))
        return max(begin, self.first), last

    def target(self, piece: StoredTensor) -> Target:
        """Of the raw bytes in the piece's file."""
        first, last = self.of_piece(piece)
        begin = piece.offsets[0] if piece.offsets else 0
        row_bytes = math.prod(piece.shape[1:]) * self.tensor.element_size()
        memory = self.memory[(first - self.first) * row_bytes : (last - self.first) * row_bytes]
        return piece.data + (first - begin) * row_bytes, memory

    def copy(self, piece: StoredTensor, stored: torch.Tensor) -> None:
        """`stored`: the rows of the piece."""
        if not stored.ndim:
            self.tensor.copy_(stored)
            return
        first, last = self.of_piece(piece)
        begin = piece.offsets[0]
        rows = stored[first - begin : last - begin]
        self.tensor[first - self.first : last - self.first].copy_(rows)


class StateReader:
    """`targets`: by file, what has to be read of it before `state` is called."""

    def __init__(self, manifest: Manifest, destination: Destination) -> None:
        self._destination = destination
        self._tensors: dict[str, _Rows] = {}
        # Pieces that are not read into place, and their bytes.
        self._packed: list[tuple[StoredPiece, memoryview]] = []
        self.targets: dict[str, list[Target]] = {name: [] for name in manifest.files}
        for piece in manifest.pieces:
            self._add(piece)

    def _add(self, piece: StoredPiece) -> None:
        if isinstance(piece, StoredTensor):
            if piece.name not in self._tensors:
                self._tensors[piece.name] = self._allocate(piece)
            rows = self._tensors[piece.name]
            first, last = rows.of_piece(piece)
            if first >= last:
                return
            if piece.data >= 0:
                self.targets[piece.file].append(rows.target(piece))
                return
        elif piece.name != SKELETON:
            # For torch.distributed.checkpoint; the skeleton has it too.
            return
        memory = direct_io.hugepage_buffer(piece.length)
        self._packed.append((piece, memory))
        self.targets[piece.file].append((piece.begin, memory))

    def _allocate(self, piece: StoredTensor) -> _Rows:
        """For the rows that are read of the tensor that `piece` is of."""
        dtype: torch.dtype = getattr(torch, piece.dtype)
        first, last = self._destination.rows(piece.name, piece.shape)
        shape = (last - first, *piece.shape[1:]) if piece.shape else ()
        live = self._destination.live(piece.name)
        if live is not None and can_hold(live, shape, dtype):
            raw = (ctypes.c_char * live.nbytes).from_address(live.data_ptr())
            return _Rows(live, memoryview(raw).cast("B"), first)
        count = math.prod(shape)
        memory = direct_io.hugepage_buffer(count * dtype.itemsize)
        tensor = torch.empty(0, dtype=dtype)
        if count:
            tensor = torch.frombuffer(memory, dtype=dtype, count=count)
        return _Rows(tensor.view(shape), memory, first)

    def state(self) -> State:
        """Once the targets are filled. Raises what torch raises for what it cannot unpack."""
        skeleton: Any = None
        layout: Sequence[tuple[str, Sequence[int], torch.dtype]] = ()
        for piece, memory in self._packed:
            unpacked = unpack(memory.tobytes())
            if isinstance(piece, StoredTensor):
                self._tensors[piece.name].copy(piece, unpacked)
            else:
                skeleton, layout = unpacked
        state: State = unflatten(skeleton, [self._placed(*described) for described in layout])
        return state

    def _placed(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of the skeleton."""
        if name in self._tensors:
            return self._destination.place(name, self._tensors[name].tensor)
        if math.prod(shape):
            raise ValueError(f"{name} is in none of the files")
        # Without elements it has no piece.
        return torch.empty(tuple(shape), dtype=dtype)
