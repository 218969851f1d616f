"""Loads the newest intact checkpoint, whatever number of ranks wrote it."""

import ctypes
import errno
import hashlib
import json
import logging
import math
import pickle
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elastic_runtime.checkpointing import best_mark, direct_io
from elastic_runtime.checkpointing.checkpoint_directory import checkpoints, set_aside
from elastic_runtime.checkpointing.save_format import (
    MANIFEST,
    METADATA,
    SKELETON,
    VERSION,
    Checkpoint,
    FileEntry,
    Manifest,
    StoredPiece,
    StoredTensor,
    folder_name,
    unseal_manifest,
)
from elastic_runtime.state.state_tree import State, can_hold, unflatten, unpack

log = logging.getLogger(__name__)
# Raised for a file that is not what was written.
DAMAGE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError)
# The same, and what torch raises when it reads one.
LOAD_ERRORS = (*DAMAGE_ERRORS, pickle.UnpicklingError, RuntimeError)
# Until a failed read is tried a second time.
RETRY_DELAY_S = 1.0


class Unreadable(LookupError):
    """The checkpoint may be intact: another version wrote it, or its storage does not respond."""


def newest_intact(directory: Path) -> Checkpoint | None:
    """Find the newest checkpoint without damage. Every byte is read; damage is logged.

    Args:
        directory: what the session had as `checkpoint`.

    Returns:
        the checkpoint; None if none is without damage.
    """
    for path in checkpoints(directory):
        if checkpoint := verify(path):
            return checkpoint
    return None


def best(directory: Path) -> Checkpoint | None:
    """Find the checkpoint of the best state, which `session.keep_best` has marked.

    Args:
        directory: what the session had as `checkpoint`.

    Returns:
        the checkpoint; None if none is marked, or it has damage, which is logged.
    """
    mark = best_mark.read(directory)
    return verify(directory / folder_name(mark.step)) if mark else None


def load_newest(
    directory: Path, live: Mapping[str, torch.Tensor]
) -> tuple[Checkpoint, State] | None:
    """The newest checkpoint without damage and its state; None if there is no checkpoint.

    `live`: as in `load`. Damaged checkpoints that are newer are set aside. Raises LookupError if
    all are damaged, or if the newest may be intact and cannot be read: then the user decides
    whether to go back to an older one.
    """
    damaged: list[Path] = []
    for path in checkpoints(directory):
        try:
            checkpoint, state = _load_with_retry(path, live)
        except Unreadable:
            raise
        except LOAD_ERRORS as error:
            log_skipped(path, error)
            damaged.append(path)
            continue
        # Otherwise the next start would try them again.
        for newer in damaged:
            set_aside(newer)
        return checkpoint, state
    if damaged:
        raise LookupError(
            f"all {len(damaged)} checkpoints in {directory} are damaged, see the log: restore one "
            f"of them, or remove the directory to start from step 0"
        )
    return None


def _load_with_retry(path: Path, live: Mapping[str, torch.Tensor]) -> tuple[Checkpoint, State]:
    """The checkpoint and its state.

    A file server may be away for a moment, so a failed read is tried again. Raises Unreadable if
    that fails too.
    """
    for is_last in (False, True):
        try:
            checkpoint, manifest = _read_manifest(path)
            return checkpoint, _load_state(path, manifest, live)
        except OSError as error:
            medium_has_failed = is_last and error.errno == errno.EIO
            if isinstance(error, FileNotFoundError) or medium_has_failed:
                # A second attempt gives the same.
                raise
            if is_last:
                raise Unreadable(
                    f"{path} cannot be read: {error}; fix the storage, or move this checkpoint "
                    f"away to resume from the previous one"
                ) from error
            log.warning(
                "checkpoint cannot be read yet", extra={"path": str(path), "reason": str(error)}
            )
            time.sleep(RETRY_DELAY_S)
    raise AssertionError


def verify(path: Path) -> Checkpoint | None:
    """The checkpoint at `path` if every byte is as its manifest lists it. Damage is logged."""
    try:
        checkpoint, manifest = _read_manifest(path)
        for name, entry in manifest.files.items():
            _check(name, entry, direct_io.read(path / name, []))
    except DAMAGE_ERRORS as error:
        log_skipped(path, error)
        return None
    return checkpoint


def load(checkpoint: Checkpoint, live: Mapping[str, torch.Tensor] | None = None) -> State:
    """Read the whole state, without a job, whatever number of ranks wrote it.

    Args:
        checkpoint: as `newest_intact` returns it.
        live: tensors by name, whose memory is used where they fit.

    Returns:
        nested dicts with `model`, `optimizer` and the rest. Tensors have their whole shape.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if a file is damaged; also what torch raises for what it cannot read.
    """
    _, manifest = _read_manifest(checkpoint.path)
    return _load_state(checkpoint.path, manifest, live or {})


class _TensorBuffer(NamedTuple):
    """A whole tensor, and its bytes for as long as it lives."""

    tensor: torch.Tensor
    memory: memoryview

    def raw_rows(self, piece: StoredTensor) -> memoryview:
        """The bytes of the rows that a piece holds."""
        row_bytes = math.prod(piece.shape[1:]) * self.tensor.element_size()
        size = math.prod(piece.rows) * self.tensor.element_size()
        begin = piece.offsets[0] * row_bytes
        return self.memory[begin : begin + size]

    def copy_rows(self, piece: StoredTensor, rows: torch.Tensor) -> None:
        if rows.ndim:
            first = piece.offsets[0]
            self.tensor[first : first + piece.rows[0]].copy_(rows)
        else:
            self.tensor.copy_(rows)


def _load_state(path: Path, manifest: Manifest, live: Mapping[str, torch.Tensor]) -> State:
    tensors: dict[str, _TensorBuffer] = {}
    # Pieces that are not read into place, and their bytes.
    packed: list[tuple[StoredPiece, memoryview]] = []
    pieces_by_file: dict[str, list[StoredPiece]] = {}
    for piece in manifest.pieces:
        pieces_by_file.setdefault(piece.file, []).append(piece)
    for file, entry in manifest.files.items():
        targets: list[tuple[int, memoryview]] = []
        for piece in pieces_by_file.get(file, ()):
            if isinstance(piece, StoredTensor) and piece.name not in tensors:
                tensors[piece.name] = _make_buffer(piece, live.get(piece.name))
            if isinstance(piece, StoredTensor) and piece.data >= 0:
                targets.append((piece.data, tensors[piece.name].raw_rows(piece)))
            else:
                memory = direct_io.hugepage_buffer(piece.length)
                packed.append((piece, memory))
                targets.append((piece.begin, memory))
        _check(file, entry, direct_io.read(path / file, targets))
    items: dict[str, Any] = {}
    for piece, memory in packed:
        if isinstance(piece, StoredTensor):
            tensors[piece.name].copy_rows(piece, unpack(memory.tobytes()))
        elif piece.name == SKELETON:
            items[piece.name] = unpack(memory.tobytes())
    skeleton, layout = items[SKELETON]
    return _assemble(skeleton, layout, tensors)


def _assemble(
    skeleton: Any,
    layout: Sequence[tuple[str, Sequence[int], torch.dtype]],
    tensors: Mapping[str, _TensorBuffer],
) -> State:
    """`layout`: name, shape and type of every tensor of the skeleton."""
    in_order = []
    for name, shape, dtype in layout:
        if name in tensors:
            in_order.append(tensors[name].tensor)
        elif math.prod(shape):
            raise ValueError(f"{name} is in none of the files")
        else:
            # Without elements it has no piece.
            in_order.append(torch.empty(tuple(shape), dtype=dtype))
    state: State = unflatten(skeleton, in_order)
    return state


def _make_buffer(piece: StoredTensor, live: torch.Tensor | None) -> _TensorBuffer:
    """For the whole tensor that `piece` is of; the live one if it fits: new memory costs time."""
    dtype: torch.dtype = getattr(torch, piece.dtype)
    if live is not None and can_hold(live, piece.shape, dtype):
        raw = (ctypes.c_char * live.nbytes).from_address(live.data_ptr())
        return _TensorBuffer(live, memoryview(raw).cast("B"))
    count = math.prod(piece.shape)
    memory = direct_io.hugepage_buffer(count * dtype.itemsize)
    tensor = torch.empty(0, dtype=dtype)
    if count:
        tensor = torch.frombuffer(memory, dtype=dtype, count=count)
    return _TensorBuffer(tensor.view(piece.shape), memory)


def _read_manifest(path: Path) -> tuple[Checkpoint, Manifest]:
    raw = (path / MANIFEST).read_bytes()
    version = json.loads(raw)["version"]
    if version != VERSION:
        raise Unreadable(
            f"{path} has format version {version}, this elastic_runtime reads version {VERSION}: "
            f"use the image that wrote it, or move it away"
        )
    manifest = unseal_manifest(raw)
    files = {piece.file for piece in manifest.pieces} | {METADATA}
    # A rank may have no piece to write, so there may be more files.
    if not files <= manifest.files.keys():
        raise ValueError("the manifest does not list all files of its pieces")
    return Checkpoint(manifest.step, hashlib.sha256(raw).hexdigest(), path), manifest


def _check(name: str, entry: FileEntry, checksum: str) -> None:
    if checksum != entry.checksum:
        raise ValueError(f"{name} is not what was written")


def log_skipped(path: Path, error: Exception) -> None:
    log.warning("checkpoint skipped", extra={"path": str(path), "reason": str(error)})
