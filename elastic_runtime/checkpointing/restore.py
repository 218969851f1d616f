"""Reading saves back: the newest that is whole, whatever number of ranks wrote it."""

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
from typing import Any

import torch

from elastic_runtime.checkpointing import direct_io
from elastic_runtime.checkpointing.save_format import (
    MANIFEST,
    METADATA,
    SKELETON,
    VERSION,
    Saved,
    saves,
    set_aside,
    unseal,
)
from elastic_runtime.state.state_tree import can_hold, unflatten, unpack

log = logging.getLogger(__name__)
# of a file that is not what was written
HARM = (OSError, ValueError, LookupError, TypeError, AttributeError)
# until what a disk refused is asked for once more
AGAIN_S = 1.0
# and of what torch reads
UNREADABLE = (*HARM, pickle.UnpicklingError, RuntimeError)


class NotRead(LookupError):
    """A save that may be whole: another version wrote it, or its disk does not give it."""


def newest(directory: Path) -> Saved | None:
    """The newest save that is whole. One that is torn or altered is passed over, with a line that
    says so."""
    for path in saves(directory):
        if found := verify(path):
            return found
    return None


def load_newest(
    directory: Path, live: Mapping[str, torch.Tensor]
) -> tuple[Saved, dict[str, Any]] | None:
    """The newest save that is whole, and its state; None where there are no saves. `live`: as
    `load` has it.

    Raises LookupError if there are saves and none is whole, or the newest may be and cannot be
    read: nobody wants to begin anew, or
    to go back, without being told.
    """
    harmed: list[Path] = []
    for path in saves(directory):
        try:
            saved, state = _patiently(path, live)
        except NotRead:
            raise
        except UNREADABLE as error:
            pass_over(path, error)
            harmed.append(path)
            continue
        # else it would go for the newest ever again
        for newer in harmed:
            set_aside(newer)
        return saved, state
    if harmed:
        raise LookupError(
            f"none of the {len(harmed)} saves in {directory} is whole, see the log: bring one "
            f"back, or remove the directory to begin anew"
        )
    return None


def _patiently(path: Path, live: Mapping[str, torch.Tensor]) -> tuple[Saved, dict[str, Any]]:
    """What it holds. A file server that was away for a moment costs nothing, one that stays away no
    save. Raises NotRead."""
    for last in (False, True):
        try:
            saved, manifest = _manifest(path)
            return saved, _state(path, manifest, live)
        except OSError as error:
            if isinstance(error, FileNotFoundError) or (last and error.errno == errno.EIO):
                # it is not there, or its medium is gone
                raise
            if last:
                raise NotRead(
                    f"{path} cannot be read: {error}; cure that, or move it away to begin from "
                    f"the one before"
                ) from error
            log.warning("save not read yet", extra={"path": str(path), "reason": str(error)})
            time.sleep(AGAIN_S)
    raise AssertionError


def verify(path: Path) -> Saved | None:
    """The save at `path` if every byte is as its manifest says."""
    try:
        saved, manifest = _manifest(path)
        for name, of in manifest["files"].items():
            _check(name, of, direct_io.read(path / name, []))
    except HARM as error:
        pass_over(path, error)
        return None
    return saved


def load(saved: Saved, live: Mapping[str, torch.Tensor] | None = None) -> dict[str, Any]:
    """The whole state, whatever number of ranks wrote it, in the memory of `live` (by name) where
    that fits, else in fresh memory.

    Raises OSError or ValueError if it is not what was written, and what torch raises for what it
    cannot read.
    """
    return _state(saved.path, _manifest(saved.path)[1], live or {})


def _state(
    path: Path, manifest: Mapping[str, Any], live: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    tensors: dict[str, tuple[torch.Tensor, memoryview]] = {}
    small: list[tuple[dict[str, Any], memoryview]] = []
    for file, of in manifest["files"].items():
        wanted: list[tuple[int, memoryview]] = []
        for p in manifest["pieces"]:
            if p["file"] != file:
                continue
            if "shape" in p and p["name"] not in tensors:
                tensors[p["name"]] = _room(
                    p["shape"], getattr(torch, p["dtype"]), live.get(p["name"])
                )
            if "shape" in p and p["data"] >= 0:
                wanted.append((p["data"], _rows(p, *tensors[p["name"]])))
            else:
                small.append((p, direct_io.room(p["length"])))
                wanted.append((p["begin"], small[-1][1]))
        _check(file, of, direct_io.read(path / file, wanted))
    told = {
        p["name"]: unpack(memory.tobytes())
        for p, memory in small
        if "shape" not in p and p["name"] == SKELETON
    }
    for p, memory in small:
        if "shape" in p:
            tensor = tensors[p["name"]][0]
            here = unpack(memory.tobytes())
            (
                tensor[p["offsets"][0] : p["offsets"][0] + p["rows"][0]] if here.ndim else tensor
            ).copy_(here)
    skeleton, listed_tensors = told[SKELETON]
    if missing := [
        name for name, shape, _ in listed_tensors if name not in tensors and math.prod(shape)
    ]:
        raise ValueError(f"{missing[0]} is in none of its files")
    made = [
        tensors[name][0] if name in tensors else torch.empty(shape, dtype=dtype)
        for name, shape, dtype in listed_tensors
    ]
    state: dict[str, Any] = unflatten(skeleton, made)
    return state


def _manifest(path: Path) -> tuple[Saved, dict[str, Any]]:
    raw = (path / MANIFEST).read_bytes()
    if (version := json.loads(raw)["version"]) != VERSION:
        raise NotRead(
            f"{path} was written by another elastic_runtime: its form is version {version}, ours "
            f"is {VERSION}; "
            "take the image that wrote it, or move it away"
        )
    manifest = unseal(raw)
    # a rank may have nothing to write
    if not {piece["file"] for piece in manifest["pieces"]} | {METADATA} <= set(manifest["files"]):
        raise ValueError("the manifest does not list the files that its pieces are in")
    return Saved(int(manifest["step"]), hashlib.sha256(raw).hexdigest(), path), manifest


def _check(name: str, of: Mapping[str, Any], found: str) -> None:
    if found != of["checksum"]:
        raise ValueError(f"{name} is not what was written")


def pass_over(path: Path, error: Exception) -> None:
    log.warning("save passed over", extra={"path": str(path), "reason": str(error)})


def _room(
    shape: Sequence[int], dtype: torch.dtype, live: torch.Tensor | None
) -> tuple[torch.Tensor, memoryview]:
    """A tensor and the bytes it is made of, there as long as it is; `live` if it is such a tensor,
    for fresh memory costs time."""
    if live is not None and can_hold(live, shape, dtype):
        return live, memoryview((ctypes.c_char * live.nbytes).from_address(live.data_ptr())).cast(
            "B"
        )
    count = math.prod(shape)
    memory = direct_io.room(count * dtype.itemsize)
    return (
        torch.frombuffer(memory, dtype=dtype, count=count) if count else torch.empty(0, dtype=dtype)
    ).view(tuple(shape)), memory


def _rows(p: Mapping[str, Any], tensor: torch.Tensor, memory: memoryview) -> memoryview:
    """The bytes of the tensor that a large piece holds."""
    row = math.prod(p["shape"][1:]) * tensor.element_size()
    return memory[p["offsets"][0] * row :][: math.prod(p["rows"]) * tensor.element_size()]
