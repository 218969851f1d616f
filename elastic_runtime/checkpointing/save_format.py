"""What a checkpoint folder contains: the names of its files, its manifest, the reports of ranks.

torch.distributed.checkpoint loads such a folder without us. It has one file from each rank, torch's
own metadata, and a manifest with the checksums of all files.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

VERSION = 4
METADATA = ".metadata"
MANIFEST = "manifest.json"
# The key of a sealed file's own checksum.
SEAL = "sha256 of the rest"
# The item that records where in the state each tensor belongs.
SKELETON = "elastic_runtime"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a job at one step, on disk.

    Attributes:
        step: committed steps.
        digest: SHA-256 of the manifest, and so of all that it lists.
        path: its folder.
    """

    step: int
    digest: str
    path: Path


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """A packed value in a file."""

    name: str
    file: str
    # The offset in the file, in bytes.
    begin: int
    length: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Rows of a tensor in a file."""

    name: str
    file: str
    # Of the packed rows, in bytes.
    begin: int
    length: int
    # Where the rows begin in the whole tensor.
    offsets: tuple[int, ...]
    # Of the whole tensor.
    shape: tuple[int, ...]
    # The shape of the rows.
    rows: tuple[int, ...]
    # torch's name for it, such as float32.
    dtype: str
    # The offset of the raw bytes in the file, to be read into place. -1 if they are few or not in
    # one block; then `unpack` reads the rows.
    data: int


StoredPiece = StoredBytes | StoredTensor


@dataclass(frozen=True, slots=True)
class FileEntry:
    checksum: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PartReport:
    """What a rank reports about its file, once the file is durable."""

    version: int
    pieces: list[StoredPiece]
    checksum: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Manifest:
    version: int
    step: int
    # By name.
    files: dict[str, FileEntry]
    pieces: list[StoredPiece]


def folder_name(step: int) -> str:
    return f"step-{step:09d}"


def step_of(folder: str) -> int:
    """The step of a checkpoint, by the name of its folder. A dot ends the number of the step."""
    return int(folder.removeprefix("step-").split(".")[0])


def part_name(rank: int) -> str:
    """The file of a rank, as torch.distributed.checkpoint names it."""
    return f"__{rank}_0.distcp"


def rank_of(part: Path) -> int:
    """The rank whose file, report or refusal this is."""
    return int(part.name.split("_")[2])


def report_path(part: Path) -> Path:
    """The report about a rank's file. It exists as soon as that file is durable."""
    return part.with_name(f"{part.name}.report")


def refusal_path(part: Path) -> Path:
    """Exists if a rank could not write its file. It contains the reason."""
    return part.with_name(f"{part.name}.refused")


def seal(content: PartReport | Manifest) -> bytes:
    """JSON that contains its own checksum."""
    plain = _fields_of(content)
    return _dump({**plain, SEAL: _checksum(plain)})


def unseal_report(sealed: bytes) -> PartReport:
    """Raises ValueError, LookupError or TypeError if it is not what was sealed."""
    values = _unseal(sealed)
    pieces = [_parse_piece(piece) for piece in values.pop("pieces")]
    return PartReport(**values, pieces=pieces)


def unseal_manifest(sealed: bytes) -> Manifest:
    """Raises ValueError, LookupError, TypeError or AttributeError if it is not what was sealed."""
    values = _unseal(sealed)
    pieces = [_parse_piece(piece) for piece in values.pop("pieces")]
    files = {_own(name): FileEntry(**entry) for name, entry in values.pop("files").items()}
    return Manifest(**values, files=files, pieces=pieces)


def _own(name: str) -> str:
    """The name of a file in the folder itself: a foreign manifest must read nothing elsewhere."""
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"{name!r} is no name of a file of the checkpoint")
    return name


def _unseal(sealed: bytes) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(sealed)
    if values.pop(SEAL) != _checksum(values):
        raise ValueError("it is not what was written")
    return values


def _checksum(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(_dump(values)).hexdigest()


def _dump(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True, default=_fields_of).encode()


def _fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass. Unlike `asdict` it copies nothing: there may be many pieces."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _parse_piece(values: Mapping[str, Any]) -> StoredPiece:
    if "shape" not in values:
        return StoredBytes(**values)
    tuples = {name: tuple(values[name]) for name in ("offsets", "shape", "rows")}
    return StoredTensor(**{**values, **tuples})
