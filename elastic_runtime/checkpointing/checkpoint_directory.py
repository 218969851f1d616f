"""The directory of a job's checkpoints: lists them, publishes a draft as a checkpoint, tidies up.

A draft is a hidden folder. It gets the name of a checkpoint only when all in it is durable.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from elastic_runtime.checkpointing import best_mark
from elastic_runtime.checkpointing.dcp_metadata import dcp_metadata
from elastic_runtime.checkpointing.direct_io import checksum
from elastic_runtime.checkpointing.durable_files import sync_directory, write_durably
from elastic_runtime.checkpointing.retention import Retention
from elastic_runtime.checkpointing.save_format import (
    MANIFEST,
    METADATA,
    VERSION,
    Checkpoint,
    FileEntry,
    Manifest,
    StoredPiece,
    folder_name,
    part_name,
    report_path,
    seal,
    step_of,
    unseal_report,
)


def publish(
    directory: Path, draft: Path, step: int, world: int, retention: Retention | None = None
) -> Checkpoint:
    """Make the draft of `world` ranks the checkpoint of `step`, durably.

    Of the checkpoints up to this step, all are removed that `retention` does not keep; without it
    none. Raises OSError; then an older checkpoint of the same step, if there was one, is still
    there.
    """
    manifest = _complete_draft(draft, step, world)
    target = directory / folder_name(step)
    replaced = directory / f".{folder_name(step)}.before"
    if target.exists():
        os.rename(target, replaced)
    try:
        os.rename(draft, target)
    except OSError:
        with suppress(OSError):
            os.rename(replaced, target)
        raise
    sync_directory(directory)
    # The new one is durable, so a failure to remove old ones does not matter.
    with suppress(OSError):
        shutil.rmtree(replaced, ignore_errors=True)
        if retention:
            _remove_superseded(directory, retention, step)
    return Checkpoint(step, hashlib.sha256(manifest).hexdigest(), target)


def _remove_superseded(directory: Path, retention: Retention, step: int) -> None:
    """Of the checkpoints up to this step."""
    saved = [step_of(path.name) for path in checkpoints(directory)]
    best = best_mark.read(directory)
    up_to_step = [other for other in saved if other <= step]
    for old in retention.superseded(up_to_step, best.step if best else None):
        shutil.rmtree(directory / folder_name(old), ignore_errors=True)


def _complete_draft(draft: Path, step: int, world: int) -> bytes:
    """Write what the ranks' files need to be a checkpoint, durably. Returns the manifest."""
    pieces: list[StoredPiece] = []
    files: dict[str, FileEntry] = {}
    for rank in range(world):
        path = report_path(draft / part_name(rank))
        report = unseal_report(path.read_bytes())
        pieces += report.pieces
        files[part_name(rank)] = FileEntry(report.checksum, report.bytes)
        path.unlink()
    metadata = dcp_metadata(pieces)
    write_durably(draft / METADATA, metadata)
    files[METADATA] = FileEntry(checksum(metadata), len(metadata))
    manifest = seal(Manifest(VERSION, step, files, pieces))
    write_durably(draft / MANIFEST, manifest)
    sync_directory(draft)
    return manifest


def remove_drafts(directory: Path, keep: Path) -> None:
    """Remove all other drafts: their writers died, or their saves were cancelled."""
    for path in directory.glob(".step-*.before"):
        # Its writer died before it published the successor, so it gets its name back. This fails
        # where the successor exists.
        with suppress(OSError):
            os.rename(path, path.with_name(path.name[1:].removesuffix(".before")))
    for path in directory.glob(".step-*"):
        if path != keep:
            # Renamed first, so that no other rank can publish it half removed. This fails where
            # another rank has just published it.
            with suppress(OSError):
                os.rename(path, path.with_name(f".removed{path.name}"))
    for path in directory.glob(".removed.*"):
        shutil.rmtree(path, ignore_errors=True)


def checkpoints(directory: Path) -> Iterator[Path]:
    """The folders of all checkpoints, newest first; none if there is no directory.

    Raises OSError if the directory cannot be listed: it may have checkpoints.
    """
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    matching = (directory / name for name in names if re.fullmatch(r"step-\d{9,}", name))
    folders = [path for path in matching if path.is_dir()]
    yield from sorted(folders, key=lambda path: step_of(path.name), reverse=True)


def newest_step(directory: Path) -> int:
    """Of the newest checkpoint by its name; -1 if there is none. Raises OSError as above."""
    return max((step_of(path.name) for path in checkpoints(directory)), default=-1)


def set_aside(checkpoint: Path) -> None:
    """Rename a damaged checkpoint, so that it is not loaded again and people can look at it."""
    with suppress(OSError):
        best_mark.remove(checkpoint.parent, step_of(checkpoint.name))
    with suppress(OSError):
        os.rename(checkpoint, checkpoint.with_name(f"damaged-{checkpoint.name}"))
