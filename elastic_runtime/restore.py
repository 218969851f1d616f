"""Reading saves back: the newest that is whole, whatever number of ranks wrote it."""

import hashlib
import io
import json
import logging
import math
import mmap
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpoint import MANIFEST, METADATA, SKELETON, VERSION, Saved, saves
from elastic_runtime.reshard import put_together, unpack

log = logging.getLogger(__name__)


def newest(directory: Path) -> Saved | None:
    """The newest save that is whole. One that is torn or altered is passed over, with a line that says so."""
    for path in saves(directory):
        if found := verify(path):
            return found
    return None


def verify(path: Path) -> Saved | None:
    """The save at `path` if every byte is as its manifest says."""
    try:
        raw = (path / MANIFEST).read_bytes()
        manifest = json.loads(raw)
        if manifest["version"] != VERSION:
            raise ValueError(f"its form is version {manifest['version']}, ours is {VERSION}")
        files: dict[str, Any] = manifest["files"]
        if not {piece["file"] for piece in manifest["pieces"]} | {METADATA} <= set(files):  # a rank may have nothing to write
            raise ValueError("the manifest does not list the files that its pieces are in")
        with ThreadPoolExecutor(4) as hashing:
            for name, found in zip(files, hashing.map(sha256, [path / name for name in files]), strict=True):
                if found != files[name]["sha256"]:
                    raise ValueError(f"{name} is not what was written")
        return Saved(int(manifest["step"]), hashlib.sha256(raw).hexdigest(), path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        log.warning("save passed over", extra={"path": str(path), "reason": str(error)})
        return None


def load(saved: Saved) -> dict[str, Any]:
    """The whole state, in fresh memory, whatever number of ranks wrote it. Raises OSError or ValueError."""
    pieces: list[dict[str, Any]] = json.loads((saved.path / MANIFEST).read_bytes())["pieces"]
    with ExitStack() as stack:
        opened = {name: stack.enter_context(io.FileIO(saved.path / name)) for name in sorted({p["file"] for p in pieces})}
        [told] = [p for p in pieces if p["name"] == SKELETON]
        skeleton, tensors = _unpacked(opened[told["file"]], told)
        made: dict[str, tuple[torch.Tensor, memoryview]] = {name: _room(shape, dtype) for name, shape, dtype in tensors}
        for p in pieces:
            if "shape" in p:
                tensor, memory = made[p["name"]]
                _read_piece(opened[p["file"]], p, tensor, memory)
        state: dict[str, Any] = put_together(skeleton, [made[name][0] for name, _, _ in tensors])
        return state


def _room(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, memoryview]:
    """A tensor and the bytes it is made of, which it keeps alive."""
    count = math.prod(shape)
    memory = memoryview(mmap.mmap(-1, max(count * dtype.itemsize, 1)))
    return (torch.frombuffer(memory, dtype=dtype, count=count) if count else torch.empty(0, dtype=dtype)).view(shape), memory


def _read_piece(file: Any, p: Mapping[str, Any], tensor: torch.Tensor, memory: memoryview) -> None:
    if p["data"] < 0:
        here = _unpacked(file, p)
        (tensor[p["offsets"][0] : p["offsets"][0] + p["rows"][0]] if here.ndim else tensor).copy_(here)
        return
    size = tensor.element_size()
    begin, left = p["offsets"][0] * math.prod(p["shape"][1:]) * size, math.prod(p["rows"]) * size
    file.seek(p["data"])
    while left:
        got = file.readinto(memory[begin : begin + left])
        if not got:
            raise OSError(f"{p['file']} ends within {p['name']}")
        begin, left = begin + got, left - got


def _unpacked(file: Any, p: Mapping[str, Any]) -> Any:
    file.seek(p["begin"])
    return unpack(file.read(p["length"]))


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
