"""Durable saves: every rank's file, then torch.distributed.checkpoint's own metadata, then a
manifest with checksums, then its name.

A save is a folder that `dcp.load` reads without us. Ranks write into a draft that all of them
reach; what each says of its file lies in
the draft too, so nobody waits for anybody on a network. The leading rank ends it: the draft gets
its name, or it is removed.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing.direct_io import Desk, Out, checksum
from elastic_runtime.checkpointing.partition import SMALL, Piece
from elastic_runtime.state.state_tree import flatten, named_tensors, pack

KEEP = 2
VERSION = 4
METADATA = ".metadata"
MANIFEST = "manifest.json"
SEAL = "sha256 of the rest"
# the item that says where in the state each tensor belongs
SKELETON = "elastic_runtime"


@dataclass(frozen=True, slots=True)
class Saved:
    step: int
    # sha256 of the manifest: what it lists is what was written
    digest: str
    path: Path


def folder(step: int) -> str:
    return f"step-{step:09d}"


def step_of(name: str) -> int:
    """Of a save's folder, whatever follows the step after a dot."""
    return int(name.removeprefix("step-").split(".")[0])


def part_name(rank: int) -> str:
    """As torch.distributed.checkpoint names it."""
    return f"__{rank}_0.distcp"


def said_of(part: Path) -> Path:
    """What its rank said of it."""
    return part.with_name(f"{part.name}.said")


def rank_of(part: Path) -> int:
    return int(part.name.split("_")[2])


def items(state: Mapping[str, Any]) -> dict[str, bytes]:
    """What of the state is no tensor, by its name in torch.distributed.checkpoint, and what `load`
    needs to put it together."""
    from torch.distributed.checkpoint._nested_dict import flatten_state_dict

    flat, _ = flatten_state_dict(dict(state))
    tensors: list[torch.Tensor] = []
    skeleton = flatten(state, tensors)
    found = {name: value for name, value in flat.items() if not isinstance(value, torch.Tensor)}
    found[SKELETON] = (skeleton, [(name, tuple(t.shape), t.dtype) for name, t in named_tensors(state)])
    return {name: pack(value) for name, value in found.items()}


class _Large:
    """A file that remembers where its last large block began, and its size."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._begin = -1
        self._size = -1

    def write(self, data: memoryview) -> int:
        if len(data) >= SMALL:
            self._begin = self._out.position
            self._size = len(data)
        return self._out.write(data)

    def begin_of(self, size: int) -> int:
        """Where the `size` bytes of the tensor just written are, to be read into place; -1 if they
        are few or not in one block."""
        found = self._begin if SMALL <= size == self._size else -1
        self._size = -1
        return found

    def flush(self) -> None:
        """`Out.end` does."""


def write_part(
    draft: Path,
    rank: int,
    pieces: Sequence[Piece],
    extra: Mapping[str, bytes],
    desk: Desk,
    given_up: Callable[[], bool],
) -> None:
    """This rank's file is durable in the draft, and said. Raises OSError, also once it is
    `given_up`."""
    draft.mkdir(parents=True, exist_ok=True)
    file = part_name(rank)
    # by a try before this one
    for left in (file, f"{file}.said", f"{file}.refused"):
        (draft / left).unlink(missing_ok=True)
    said: list[dict[str, Any]] = []
    # of this thread alone; ours are stronger, and torch does not look at its own
    torch.serialization.set_crc32_options(False)
    out = Out(draft / file, desk, given_up)
    file_like = _Large(out)
    try:
        for piece in pieces:
            begin = out.position
            torch.save(piece.tensor, file_like)  # type: ignore[arg-type]  # torch asks for no more than write and flush
            said.append(
                {
                    "name": piece.name,
                    "offsets": piece.offsets,
                    "shape": piece.shape,
                    "rows": tuple(piece.tensor.shape),
                    "dtype": str(piece.tensor.dtype).removeprefix("torch."),
                    "file": file,
                    "begin": begin,
                    "length": out.position - begin,
                    "data": file_like.begin_of(piece.tensor.nbytes),
                }
            )
        for name, packed in extra.items():
            said.append({"name": name, "file": file, "begin": out.position, "length": len(packed)})
            out.write(packed)
        found = out.end()
    except RuntimeError as error:
        # torch.save wraps a failed write
        raise OSError(str(error)) from error
    finally:
        out.close()
    told = {"version": VERSION, "pieces": said, "checksum": found, "bytes": out.position}
    write_durably(draft / f"{file}.part", seal(told))
    os.rename(draft / f"{file}.part", said_of(draft / file))


def seal(said: Mapping[str, Any]) -> bytes:
    """As JSON, with a checksum of its own: `unseal` takes it back."""
    return json.dumps({**said, SEAL: _checksum(said)}, sort_keys=True).encode()


def unseal(sealed: bytes) -> dict[str, Any]:
    """Raises ValueError or LookupError if it is not what was sealed."""
    said: dict[str, Any] = json.loads(sealed)
    if said.pop(SEAL) != _checksum(said):
        raise ValueError("it is not what was written")
    return said


def _checksum(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def refuse_part(draft: Path, rank: int, why: str) -> None:
    """The leading rank need not wait for this one. Raises OSError when not even that can be
    said."""
    draft.mkdir(parents=True, exist_ok=True)
    (draft / f"{part_name(rank)}.refused").write_text(why)


def parts_said(draft: Path, world: int) -> bool:
    """Whether every rank has said that its file is durable. Raises OSError if one has said that it
    will not be."""
    for path in draft.glob("*.refused"):
        raise OSError(
            f"rank {rank_of(path)} did not write its part: "
            f"{path.read_text() or 'no room to say why'}"
        )
    return all(said_of(draft / part_name(rank)).exists() for rank in range(world))


def conclude(directory: Path, draft: Path, step: int, world: int) -> Saved:
    """The draft of `world` ranks is the save of `step`, durable. Of the saves up to it, those older
    than the newest `KEEP` are removed.

    Raises OSError; then the save of the same step that there was, if there was one, is still there.
    """
    pieces: list[dict[str, Any]] = []
    files: dict[str, dict[str, Any]] = {}
    for path in (said_of(draft / part_name(rank)) for rank in range(world)):
        told = unseal(path.read_bytes())
        pieces += told["pieces"]
        files[path.stem] = {"checksum": told["checksum"], "bytes": told["bytes"]}
        path.unlink()
    metadata = _metadata(pieces)
    write_durably(draft / METADATA, metadata)
    files[METADATA] = {"checksum": checksum(metadata), "bytes": len(metadata)}
    manifest = seal({"version": VERSION, "step": step, "files": files, "pieces": pieces})
    write_durably(draft / MANIFEST, manifest)
    sync_directory(draft)
    target = directory / folder(step)
    before = directory / f".{folder(step)}.before"
    if target.exists():
        os.rename(target, before)
    try:
        os.rename(draft, target)
    except OSError:
        with suppress(OSError):
            os.rename(before, target)
        raise
    sync_directory(directory)
    # it is durable, whatever becomes of the old ones
    with suppress(OSError):
        for old in [
            before,
            *[path for path in saves(directory) if path.name <= target.name][KEEP:],
        ]:
            shutil.rmtree(old, ignore_errors=True)
    return Saved(step, hashlib.sha256(manifest).hexdigest(), target)


def _metadata(pieces: Sequence[Mapping[str, Any]]) -> bytes:
    """As torch.distributed.checkpoint.FileSystemWriter has it. Raises OSError if a piece is
    missing."""
    import pickle

    from torch.distributed.checkpoint import metadata as dcp
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    kinds: dict[str, Any] = {}
    stored: dict[Any, Any] = {}
    # elements that are there
    rows: dict[str, int] = {}
    for piece in pieces:
        name = piece["name"]
        offset = None
        if "shape" in piece:
            offset = torch.Size(piece["offsets"])
            properties = dcp.TensorProperties(dtype=getattr(torch, piece["dtype"]))
            kind = kinds.setdefault(
                name, dcp.TensorStorageMetadata(properties, torch.Size(piece["shape"]), [])
            )
            kind.chunks.append(dcp.ChunkStorageMetadata(offset, torch.Size(piece["rows"])))
            rows[name] = rows.get(name, 0) + math.prod(piece["rows"])
        else:
            kinds[name] = dcp.BytesStorageMetadata()
        stored[dcp.MetadataIndex(name, offset)] = _StorageInfo(
            piece["file"], piece["begin"], piece["length"]
        )
    for name, found in rows.items():
        if found != (whole := math.prod(kinds[name].size)):
            raise OSError(f"{found} of the {whole} elements of {name} were written")
    return pickle.dumps(dcp.Metadata(kinds, storage_data=stored))


def remove_drafts(directory: Path, but: Path) -> None:
    """Every other draft, of writers that died or of saves that were given up, is gone."""
    for path in directory.glob(".step-*.before"):
        # there is one in its place: else its writer died just before that got its name
        with suppress(OSError):
            os.rename(path, path.with_name(path.name[1:].removesuffix(".before")))
    for path in directory.glob(".step-*"):
        if path != but:
            # its leading rank has just ended it; else it cannot any more, and not with half its
            # files
            with suppress(OSError):
                os.rename(path, path.with_name(f".gone{path.name}"))
    for path in directory.glob(".gone.*"):
        shutil.rmtree(path, ignore_errors=True)


def saves(directory: Path) -> Iterator[Path]:
    """Newest first; none where there is no directory. Raises OSError for one that cannot be listed:
    what is in it is not nothing."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    found = (directory / name for name in names if re.fullmatch(r"step-\d{9,}", name))
    yield from sorted(
        (path for path in found if path.is_dir()), key=lambda path: step_of(path.name), reverse=True
    )


def set_aside(save: Path) -> None:
    """A save that is not whole is no longer one; it is left for people to look at."""
    with suppress(OSError):
        os.rename(save, save.with_name(f"harmed-{save.name}"))


def write_durably(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
