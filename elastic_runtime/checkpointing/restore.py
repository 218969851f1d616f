"""Finds, verifies and loads checkpoints without a job, whatever number of ranks wrote them."""

import hashlib
import json
import logging
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing import best_mark, direct_io
from elastic_runtime.checkpointing.checkpoint_directory import checkpoints
from elastic_runtime.checkpointing.save_format import (
    MANIFEST,
    METADATA,
    VERSION,
    Checkpoint,
    FileEntry,
    Manifest,
    folder_name,
    unseal_manifest,
)
from elastic_runtime.checkpointing.stored_state import StateReader
from elastic_runtime.mistake import Mistake
from elastic_runtime.state.destination import WholeTensors
from elastic_runtime.state.state_tree import State

log = logging.getLogger(__name__)
# Of a state.
LARGE_KEYS = ("model", "optimizer")
# Raised for a file that is not what was written.
DAMAGE_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError)
# The same, and what torch raises when it reads one.
LOAD_ERRORS = (*DAMAGE_ERRORS, pickle.UnpicklingError, RuntimeError)


class Unreadable(LookupError):
    """The checkpoint may be intact: another version wrote it, or its storage does not respond."""


def newest(directory: str | Path) -> Checkpoint | None:
    """Find the newest checkpoint, such as for its step. Its manifest is read, not its files.

    Args:
        directory: what the session had as `checkpoint`.

    Returns:
        the checkpoint; None if there is none whose manifest is without damage, which is logged.
    """
    for path in checkpoints(Path(directory)):
        try:
            return read_manifest(path)[0]
        except DAMAGE_ERRORS as error:
            log_skipped(path, error)
    return None


def newest_intact(directory: str | Path) -> Checkpoint | None:
    """Find the newest checkpoint without damage. Every byte is read; damage is logged.

    Args:
        directory: what the session had as `checkpoint`.

    Returns:
        the checkpoint; None if none is without damage.
    """
    for path in checkpoints(Path(directory)):
        if checkpoint := verify(path):
            return checkpoint
    return None


def best(directory: str | Path) -> Checkpoint | None:
    """Find the checkpoint of the best state, which `session.keep_best` has marked.

    Args:
        directory: what the session had as `checkpoint`.

    Returns:
        the checkpoint; None if none is marked, or it has damage, which is logged.
    """
    mark = best_mark.read(Path(directory))
    return verify(Path(directory) / folder_name(mark.step)) if mark else None


def verify(path: Path) -> Checkpoint | None:
    """The checkpoint at `path` if every byte is as its manifest lists it. Damage is logged."""
    try:
        checkpoint, manifest = read_manifest(path)
        for name, entry in manifest.files.items():
            check(name, entry, direct_io.read(path / name, []))
    except DAMAGE_ERRORS as error:
        log_skipped(path, error)
        return None
    return checkpoint


def verify_file(path: Path, name: str) -> None:
    """Raises one of DAMAGE_ERRORS if this file of the checkpoint at `path` is not as it was
    written."""
    _, manifest = read_manifest(path)
    if name != MANIFEST:
        check(name, manifest.files[name], direct_io.read(path / name, []))


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
    _check_given("load", checkpoint)
    _, manifest = read_manifest(checkpoint.path)
    reader = StateReader(manifest, WholeTensors(live))
    return _read(checkpoint.path, manifest, reader, list(manifest.files))


def load_extra(checkpoint: Checkpoint) -> State:
    """Read the state without its model and optimizer, from one of the files.

    Args:
        checkpoint: as `newest` returns it.

    Returns:
        `step`, `loss`, `data` and so on; `also` has the states of `lr_schedulers` and `stateful`,
        in this order.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file is damaged; also what torch raises for what it cannot read.
    """
    _check_given("load_extra", checkpoint)
    _, manifest = read_manifest(checkpoint.path)
    reader = StateReader(manifest, _WithoutModel())
    files = [file for file, targets in reader.targets.items() if targets]
    state = _read(checkpoint.path, manifest, reader, files)
    return {key: value for key, value in state.items() if key not in LARGE_KEYS}


def _check_given(name: str, checkpoint: Any) -> None:
    if checkpoint is None:
        raise Mistake(
            f"restore.{name} was given None, which newest, newest_intact and best return if there "
            "is no checkpoint: look for None first"
        )
    if isinstance(checkpoint, str | os.PathLike):
        raise Mistake(
            f"restore.{name} was given a path: give it a checkpoint that is there, "
            f"restore.newest_intact({str(checkpoint)!r})"
        )


class _WithoutModel(WholeTensors):
    def rows(self, name: str, shape: Sequence[int]) -> tuple[int, int]:
        return (0, 0) if name.split(".")[0] in LARGE_KEYS else super().rows(name, shape)


def _read(path: Path, manifest: Manifest, reader: StateReader, files: Sequence[str]) -> State:
    """The state once these files are read, and are as the manifest lists them."""
    for file in files:
        check(file, manifest.files[file], direct_io.read(path / file, reader.targets[file]))
    return reader.state()


def read_manifest(path: Path) -> tuple[Checkpoint, Manifest]:
    """The checkpoint at `path` and what it should hold. Raises one of DAMAGE_ERRORS."""
    with direct_io.naming(path / MANIFEST):
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


def check(name: str, entry: FileEntry, checksum: str) -> None:
    if checksum != entry.checksum:
        raise ValueError(f"{name} is not what was written")


def log_skipped(path: Path, error: Exception) -> None:
    log.warning("checkpoint skipped", extra={"path": str(path), "reason": str(error)})
