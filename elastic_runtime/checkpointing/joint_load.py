"""Loads the newest checkpoint on all ranks of a group together, each the rows that it needs.

A rank reads whole blocks of the files and hashes them. The ranks exchange the hashes, which
together are the checksums in the manifest, so every byte is verified and no rank reads them all.
"""

import errno
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from elastic_runtime.checkpointing import direct_io, restore
from elastic_runtime.checkpointing.checkpoint_directory import checkpoints, set_aside
from elastic_runtime.checkpointing.restore import LOAD_ERRORS, Unreadable
from elastic_runtime.checkpointing.save_format import Checkpoint, FileEntry, Manifest
from elastic_runtime.checkpointing.stored_state import StateReader
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.state.destination import Destination
from elastic_runtime.state.state_tree import State

log = logging.getLogger(__name__)
T = TypeVar("T")
# File → number of a block → its sha256, in hex; keys are strings, as in JSON.
Hashes = dict[str, dict[str, str]]
# Until a failed read is tried a second time.
RETRY_DELAY_S = 1.0


class Damaged(ValueError):
    """A rank has found a file that is not what was written."""


class _Opened(NamedTuple):
    """A checkpoint whose blocks with this rank's rows have been read."""

    checkpoint: Checkpoint
    manifest: Manifest
    reader: StateReader
    hashes: Hashes


def load_newest(
    directory: Path, destination: Destination, group: Group | None = None
) -> tuple[Checkpoint, State] | None:
    """The newest checkpoint without damage and its state; None if there is no checkpoint.

    Called by every rank of the group, and alike on all of them; None: this rank loads alone.
    Damaged checkpoints that are newer are set aside. Raises LookupError if all are damaged, or if
    the newest may be intact and cannot be read: then the user decides whether to go back to an
    older one. Raises PeerLost if a rank is lost. Live tensors of the destination may then have
    undefined contents.
    """
    is_leading = group is None or group.rank == 0
    damaged: list[Path] = []
    for name in _names(directory, group, is_leading=is_leading):
        path = directory / name
        try:
            loaded = _load(path, destination, group)
        except Damaged as error:
            if is_leading:
                restore.log_skipped(path, error)
            damaged.append(path)
            continue
        if is_leading:
            # Otherwise the next start would try them again.
            for newer in damaged:
                set_aside(newer)
        return loaded
    if damaged:
        raise LookupError(
            f"all {len(damaged)} checkpoints in {directory} are damaged, see the log: restore one "
            f"of them, or remove the directory to start from step 0"
        )
    return None


def _names(directory: Path, group: Group | None, *, is_leading: bool) -> list[str]:
    """The folders that the leading rank sees, newest first."""
    failure = ""
    names: list[str] = []
    try:
        names = [path.name for path in checkpoints(directory)] if is_leading else []
    except OSError as error:
        failure = str(error)
    failure, names = all_gather_object(group, [failure, names])[0]
    if failure:
        raise Unreadable(f"the checkpoints in {directory} cannot be listed: {failure}")
    return names


def _load(path: Path, destination: Destination, group: Group | None) -> tuple[Checkpoint, State]:
    """Raises Damaged or Unreadable, alike on every rank."""
    opened, hashes = _agreed(
        group, lambda: _with_retry(path, lambda: _open(path, destination)), lambda o: o.hashes
    )
    files = opened.manifest.files
    # What no rank needs is read as well: it may be needed at another size.
    missing = _missing(files, hashes)
    rank, world = (group.rank, group.world) if group else (0, 1)
    _, others = _agreed(
        group, lambda: _with_retry(path, lambda: _hash(path, missing[rank::world])), lambda h: h
    )

    def finish() -> State:
        _check(files, _merged([*hashes, *others]))
        return opened.reader.state()

    state, digests = _agreed(group, finish, lambda _: opened.checkpoint.digest)
    if len({*digests}) > 1:
        raise Damaged("the ranks have read different manifests")
    return opened.checkpoint, state


def _agreed(
    group: Group | None, attempt: Callable[[], T], shared: Callable[[T], Any]
) -> tuple[T, list[Any]]:
    """What `attempt` returns, and what `shared` makes of that on every rank, by rank.

    Raises Unreadable on every rank if `attempt` raised it on one, and else Damaged if it raised
    another error on one.
    """
    results: list[T] = []
    failure = ""
    is_unreadable = False
    try:
        results.append(attempt())
    except LOAD_ERRORS as error:
        failure = str(error) or type(error).__name__
        # Memory may be freed yet, by a process that is ending.
        is_unreadable = isinstance(error, Unreadable | torch.OutOfMemoryError)
    outcome = [failure, is_unreadable, shared(results[0]) if results else None]
    outcomes = all_gather_object(group, outcome)
    failures = [(not may_be_intact, text) for text, may_be_intact, _ in outcomes if text]
    if failures:
        is_damaged, text = min(failures)
        raise Damaged(text) if is_damaged else Unreadable(text)
    return results[0], [value for _, _, value in outcomes]


def _with_retry(path: Path, attempt: Callable[[], T]) -> T:
    """What `attempt` returns. A file server may be away for a moment, so a failed read is tried
    again. Raises Unreadable if that fails too."""
    for is_last in (False, True):
        try:
            return attempt()
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


# --- blocks ---------------------------------------------------------------------------------------


def _open(path: Path, destination: Destination) -> _Opened:
    checkpoint, manifest = restore.read_manifest(path)
    reader = StateReader(manifest, destination)
    hashes: Hashes = {}
    for file, targets in reader.targets.items():
        if (path / file).stat().st_size != manifest.files[file].bytes:
            raise ValueError(f"{file} does not have its size any more")
        blocks = direct_io.read_blocks(path / file, targets, direct_io.blocks_of(targets))
        hashes[file] = _as_text(blocks)
    return _Opened(checkpoint, manifest, reader, hashes)


def _hash(path: Path, blocks: Iterable[tuple[str, int]]) -> Hashes:
    numbers: dict[str, list[int]] = {}
    for file, number in blocks:
        numbers.setdefault(file, []).append(number)
    return {
        file: _as_text(direct_io.read_blocks(path / file, [], of_file))
        for file, of_file in numbers.items()
    }


def _as_text(hashes: Mapping[int, bytes]) -> dict[str, str]:
    return {str(number): block_hash.hex() for number, block_hash in hashes.items()}


def _missing(files: Mapping[str, FileEntry], hashes: Sequence[Hashes]) -> list[tuple[str, int]]:
    """(file, number) of the blocks that no rank has hashed."""
    known = {
        (file, number)
        for by_file in hashes
        for file, of_file in by_file.items()
        for number in of_file
    }
    return [
        (file, number)
        for file, entry in files.items()
        for number in range(direct_io.block_count(entry.bytes))
        if (file, str(number)) not in known
    ]


def _merged(hashes: Sequence[Hashes]) -> Hashes:
    """Raises ValueError if two ranks have read different bytes."""
    merged: Hashes = {}
    for by_file in hashes:
        for file, of_file in by_file.items():
            known = merged.setdefault(file, {})
            for number, block_hash in of_file.items():
                if known.setdefault(number, block_hash) != block_hash:
                    raise ValueError(f"two workers have read different bytes of {file}")
    return merged


def _check(files: Mapping[str, FileEntry], hashes: Hashes) -> None:
    for file, entry in files.items():
        of_file = hashes.get(file, {})
        in_order = [of_file[str(number)] for number in range(direct_io.block_count(entry.bytes))]
        restore.check(file, entry, direct_io.checksum_of_blocks(map(bytes.fromhex, in_order)))
