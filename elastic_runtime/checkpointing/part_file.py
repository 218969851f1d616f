"""Writes the file of one rank into the draft of a checkpoint, and a report once it is durable.

The draft is a folder that all ranks reach. So no rank waits for another over the network.
"""

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing.durable_files import write_durably
from elastic_runtime.checkpointing.hashed_writer import PAGE_BYTES, BackgroundWorker, HashedWriter
from elastic_runtime.checkpointing.partition import SMALL_TENSOR_BYTES, Piece
from elastic_runtime.checkpointing.save_format import (
    SKELETON,
    VERSION,
    PartReport,
    StoredBytes,
    StoredPiece,
    StoredTensor,
    part_name,
    rank_of,
    refusal_path,
    report_path,
    seal,
)
from elastic_runtime.state.state_tree import flatten, named_tensors, pack


class MissingPart(OSError):
    """The file of another rank does not come."""


def pack_items(state: Mapping[str, Any]) -> dict[str, bytes]:
    """All of the state that is no tensor, by its name in torch.distributed.checkpoint.

    The item `SKELETON` is ours: `restore` needs it to put the state together.
    """
    # Imports all of torch.distributed.checkpoint, so only where it is needed.
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict

    flat, _ = flatten_state_dict(dict(state))
    items = {name: value for name, value in flat.items() if not isinstance(value, torch.Tensor)}
    tensors: list[torch.Tensor] = []
    skeleton = flatten(state, tensors)
    layout = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in named_tensors(state)]
    items[SKELETON] = (skeleton, layout)
    return {name: pack(value) for name, value in items.items()}


class _PackedTensor:
    """A file for torch.save of one tensor, which goes to `writer`.

    If the tensor is large and torch writes its bytes at once, they are written from where they are.
    `begin` and `data`: the offsets of all that torch wrote, and of the raw bytes; -1 if they are
    few or were not written at once.
    """

    def __init__(self, writer: HashedWriter, tensor: torch.Tensor) -> None:
        self._writer = writer
        self._tensor = tensor
        self._header = b""
        self.begin = -1
        self.data = -1

    def write(self, data: memoryview) -> int:
        if self.begin < 0 and len(data) == self._tensor.nbytes >= SMALL_TENSOR_BYTES:
            self._write_in_place()
        elif self.begin < 0 and len(self._header) < SMALL_TENSOR_BYTES:
            self._header += data
        else:
            self.finish()
            self._writer.write(data)
        return len(data)

    def _write_in_place(self) -> None:
        address = self._tensor.data_ptr()
        # Bytes of no piece, so that the tensor has its place in a page of memory and of the file.
        gap = (address - len(self._header) - self._writer.position) % PAGE_BYTES
        self._writer.write(bytes(gap))
        self.finish()
        self.data = self._writer.position
        memory = (ctypes.c_char * self._tensor.nbytes).from_address(address)
        self._writer.write_in_place(memoryview(memory).cast("B"), address)

    def flush(self) -> None:
        """Nothing: `HashedWriter.finish` does it."""

    def finish(self) -> None:
        """Afterwards the header is written, and what follows goes behind it."""
        if self.begin < 0:
            self.begin = self._writer.position
            self._writer.write(self._header)


def write_part(
    draft: Path,
    rank: int,
    pieces: Sequence[Piece],
    items: Mapping[str, bytes],
    worker: BackgroundWorker,
    is_cancelled: Callable[[], bool],
) -> None:
    """Afterwards this rank's file and its report are durable in the draft.

    `items`: packed values that are no tensors. Raises OSError, also when `is_cancelled` returns
    true.
    """
    draft.mkdir(parents=True, exist_ok=True)
    path = draft / part_name(rank)
    # Of an earlier attempt.
    for leftover in (path, report_path(path), refusal_path(path)):
        leftover.unlink(missing_ok=True)
    # Only in this thread: our checksums are stronger, and torch does not read its own.
    torch.serialization.set_crc32_options(False)
    writer = HashedWriter(path, worker, is_cancelled)
    try:
        stored = [
            *_write_tensors(writer, path.name, pieces),
            *_write_items(writer, path.name, items),
        ]
        checksum = writer.finish()
    except RuntimeError as error:
        # torch.save wraps the error of a failed write.
        raise OSError(str(error)) from error
    finally:
        writer.close()
    temporary = path.with_name(f"{path.name}.part")
    write_durably(temporary, seal(PartReport(VERSION, stored, checksum, writer.position)))
    os.rename(temporary, report_path(path))


def _write_tensors(writer: HashedWriter, file: str, pieces: Sequence[Piece]) -> list[StoredPiece]:
    stored: list[StoredPiece] = []
    for piece in pieces:
        packed = _PackedTensor(writer, piece.tensor)
        # torch asks for no more than write and flush.
        torch.save(piece.tensor, packed)  # type: ignore[arg-type]
        packed.finish()
        stored.append(
            StoredTensor(
                name=piece.name,
                file=file,
                begin=packed.begin,
                length=writer.position - packed.begin,
                offsets=piece.offsets,
                shape=piece.shape,
                rows=tuple(piece.tensor.shape),
                dtype=str(piece.tensor.dtype).removeprefix("torch."),
                data=packed.data,
            )
        )
    return stored


def _write_items(writer: HashedWriter, file: str, items: Mapping[str, bytes]) -> list[StoredPiece]:
    stored: list[StoredPiece] = []
    for name, packed in items.items():
        stored.append(StoredBytes(name, file, writer.position, len(packed)))
        writer.write(packed)
    return stored


def refuse_part(draft: Path, rank: int, reason: str) -> None:
    """Tell the leading rank not to wait for this one's file. Raises OSError if that fails too."""
    draft.mkdir(parents=True, exist_ok=True)
    refusal_path(draft / part_name(rank)).write_text(reason)


def missing_parts(draft: Path, world: int) -> list[int]:
    """The ranks whose files are not durable yet. Raises MissingPart if one never will be."""
    for path in draft.glob("*.refused"):
        reason = path.read_text() or "the disk has no room for the reason"
        raise MissingPart(f"rank {rank_of(path)} did not write its part: {reason}")
    return [rank for rank in range(world) if not report_path(draft / part_name(rank)).exists()]
