"""Durable saves: files, then a manifest with their checksums, last and atomically. Written by one rank, in the background."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

log = logging.getLogger(__name__)
KEEP = 2
STATE, MANIFEST = "state.pt", "manifest.json"


@dataclass(frozen=True, slots=True)
class Saved:
    step: int
    digest: str  # sha256 of the manifest: what it lists is what was written
    path: Path


def save(directory: Path, step: int, state: dict[str, Any], *, keep: int = KEEP) -> Saved:
    """Afterwards the save of `step` is on disk whole, or OSError was raised and every older save is as it was.

    The state must not change meanwhile: give a copy. Older saves than the newest `keep` are removed.
    """
    target = directory / f"step-{step:09d}"
    draft = directory / f".{target.name}.{os.getpid()}"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        with open(draft / STATE, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        files = {STATE: {"sha256": _sha256(draft / STATE), "bytes": (draft / STATE).stat().st_size}}
        manifest = json.dumps({"step": step, "files": files}, sort_keys=True).encode()
        with open(draft / MANIFEST, "wb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(target, ignore_errors=True)
        os.rename(draft, target)
        _sync_directory(directory)
    except (OSError, RuntimeError) as error:  # torch.save wraps a failed write in RuntimeError
        shutil.rmtree(draft, ignore_errors=True)
        raise OSError(f"saving step {step} to {directory} failed: {error}") from error
    for old in list(_saves(directory))[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return Saved(step, hashlib.sha256(manifest).hexdigest(), target)


def newest(directory: Path) -> Saved | None:
    """The newest save that is whole. One that is torn or altered is passed over, with a line that says so."""
    for path in _saves(directory):
        if found := verify(path):
            return found
    return None


def verify(path: Path) -> Saved | None:
    """The save at `path` if every byte is as its manifest says."""
    try:
        raw = (path / MANIFEST).read_bytes()
        manifest = json.loads(raw)
        if _sha256(path / STATE) != manifest["files"][STATE]["sha256"]:
            raise ValueError(f"{STATE} is not what was written")
        return Saved(int(manifest["step"]), hashlib.sha256(raw).hexdigest(), path)
    except (OSError, ValueError, LookupError, TypeError) as error:
        log.warning("save passed over", extra={"path": str(path), "reason": str(error)})
        return None


def load(saved: Saved) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(saved.path / STATE, weights_only=True)
    return state


def _saves(directory: Path) -> Iterator[Path]:
    """Newest first."""
    yield from sorted((p for p in directory.glob("step-*") if p.is_dir()), reverse=True)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
