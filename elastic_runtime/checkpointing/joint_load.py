"""Loads the newest checkpoint on all ranks of a group together, each the rows that it needs.

A rank reads whole blocks of the files and hashes them. The ranks exchange the hashes, which
together are the checksums in the manifest, so every byte is verified and no rank reads them all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from elastic_runtime.checkpointing import best_mark, direct_io, restore
from elastic_runtime.checkpointing.checkpoint_directory import checkpoints, set_aside
from elastic_runtime.checkpointing.load_failures import Damaged, WrongSize, agreed
from elastic_runtime.checkpointing.restore import Unreadable
from elastic_runtime.checkpointing.save_format import Checkpoint, FileEntry, Manifest, folder_name
from elastic_runtime.checkpointing.stored_state import StateReader
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.state.destination import Destination
from elastic_runtime.state.state_tree import State

T = TypeVar("T")
# File → number of a block → its sha256, in hex; keys are strings, as in JSON.
Hashes = dict[str, dict[str, str]]


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
    return _load_newest(directory, group, lambda path: _load(path, destination, group))


def load_newest_on_first(
    directory: Path, destination: Destination, group: Group | None
) -> tuple[Checkpoint, State] | None:
    """As `load_newest`, but only the leading rank reads; None on the others.

    The others take part because they may be able to read what the leading rank cannot.
    """

    def load(path: Path) -> tuple[Checkpoint, State] | None:
        if group and group.rank:
            return agreed(group, path, lambda: None, lambda _: None)[0]
        return agreed(group, path, lambda: _load_alone(path, destination), lambda _: None)[0]

    return _load_newest(directory, group, load)


def _load_newest(directory: Path, group: Group | None, load: Callable[[Path], T]) -> T | None:
    """What `load` returns of the newest checkpoint for which it does not raise Damaged."""
    is_leading = group is None or group.rank == 0
    damaged: list[Path] = []
    for name in _names(directory, group):
        path = directory / name
        try:
            loaded = load(path)
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


def load_best(
    directory: Path, destination: Destination, group: Group | None = None
) -> State | None:
    """The state that the leading rank's mark names as the best; None if there is none.

    Called by every rank of the group, and alike on all of them, as `load_newest`. Raises Damaged or
    Unreadable if a rank does not get it whole, and PeerLost.
    """

    def marked() -> list[str]:
        mark = best_mark.read(directory)
        return [folder_name(mark.step)] if mark else []

    for name in _leading_names(directory, group, marked):
        return _load(directory / name, destination, group)[1]
    return None


def _names(directory: Path, group: Group | None) -> list[str]:
    """The folders that the leading rank sees, newest first."""
    return _leading_names(directory, group, lambda: [path.name for path in checkpoints(directory)])


def _leading_names(
    directory: Path, group: Group | None, look: Callable[[], list[str]]
) -> list[str]:
    """What `look` returns on the leading rank. Raises Unreadable on all if it cannot."""
    failure = ""
    names: list[str] = []
    try:
        names = look() if group is None or group.rank == 0 else []
    except OSError as error:
        failure = str(error)
    failure, names = all_gather_object(group, [failure, names])[0]
    if failure:
        raise Unreadable(f"the checkpoints in {directory} cannot be listed: {failure}")
    return names


def _load(path: Path, destination: Destination, group: Group | None) -> tuple[Checkpoint, State]:
    """Raises Damaged or Unreadable, alike on every rank."""
    opened, hashes = agreed(group, path, lambda: _open(path, destination), lambda o: o.hashes)
    files = opened.manifest.files
    # What no rank needs is read as well: it may be needed at another size.
    missing = _missing(files, hashes)
    rank, world = (group.rank, group.world) if group else (0, 1)
    _, others = agreed(group, path, lambda: _hash(path, missing[rank::world]), lambda h: h)

    def finish() -> State:
        _check(files, _merged([*hashes, *others]))
        return opened.reader.state()

    state, digests = agreed(group, path, finish, lambda _: opened.checkpoint.digest)
    if len({*digests}) > 1:
        raise Unreadable(f"the workers have read different manifests of {path}")
    return opened.checkpoint, state


def _load_alone(path: Path, destination: Destination) -> tuple[Checkpoint, State]:
    """Raises one of LOAD_ERRORS."""
    opened = _open(path, destination)
    files = opened.manifest.files
    others = _hash(path, _missing(files, [opened.hashes]))
    _check(files, _merged([opened.hashes, others]))
    return opened.checkpoint, opened.reader.state()


# --- blocks ---------------------------------------------------------------------------------------


def _open(path: Path, destination: Destination) -> _Opened:
    checkpoint, manifest = restore.read_manifest(path)
    reader = StateReader(manifest, destination)
    hashes: Hashes = {}
    for file, targets in reader.targets.items():
        if (path / file).stat().st_size != manifest.files[file].bytes:
            raise WrongSize(path / file)
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
