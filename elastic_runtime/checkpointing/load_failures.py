"""Decides, alike on all ranks, what it means that a rank could not load a checkpoint.

A checkpoint that is damaged is passed over. One that may be intact is not: the job ends with an
error that names the worker, the file and the cause. What a rank cannot read is damaged only if no
other rank can read it either.
"""

import errno
import logging
import platform
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from elastic_runtime.checkpointing import restore
from elastic_runtime.checkpointing.restore import LOAD_ERRORS, Unreadable
from elastic_runtime.checkpointing.save_format import MANIFEST
from elastic_runtime.distributed.group import Group, all_gather_object

log = logging.getLogger(__name__)
T = TypeVar("T")
# Until a failed read is tried a second time.
RETRY_DELAY_S = 1.0


class Damaged(ValueError):
    """A file is not what was written, or no rank can read it."""


class WrongSize(ValueError):
    """A file is not as long as its manifest says. `filename`: as that of an OSError."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} does not have its size any more")
        self.filename = str(path)


class _Kind(IntEnum):
    NONE = 0
    # The file may be intact.
    UNREADABLE = 1
    # This rank does not get the file: it is not there, too short, or its medium has failed.
    MISSING = 2
    DAMAGED = 3


class _Failure(NamedTuple):
    """Of one rank. `file`: the name of the file in the checkpoint, if it is known."""

    kind: _Kind = _Kind.NONE
    text: str = ""
    file: str = ""
    host: str = ""


def agreed(
    group: Group | None, path: Path, attempt: Callable[[], T], shared: Callable[[T], Any]
) -> tuple[T, list[Any]]:
    """What `attempt` returns, and what `shared` makes of that on every rank, by rank.

    Raises Unreadable or Damaged on every rank if `attempt` raised an error on one, and PeerLost.
    `path`: the checkpoint, of which `attempt` reads.
    """
    results: list[T] = []
    failure = _Failure()
    try:
        results.append(_with_retry(path, attempt))
    except LOAD_ERRORS as error:
        failure = _failure_of(error)
    outcomes = all_gather_object(group, [*failure, shared(results[0]) if results else None])
    failures = [_Failure(_Kind(kind), *others) for kind, *others, _ in outcomes]
    _raise_failure(group, path, failures)
    return results[0], [outcome[-1] for outcome in outcomes]


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


def _failure_of(error: BaseException) -> _Failure:
    text = str(error) or type(error).__name__
    filename: str | None = getattr(error, "filename", None)
    file = Path(filename or MANIFEST).name
    return _Failure(_kind_of(error), text, file, platform.node())


def _kind_of(error: BaseException) -> _Kind:
    # Memory may be freed yet, by a process that is ending.
    if isinstance(error, Unreadable | torch.OutOfMemoryError):
        return _Kind.UNREADABLE
    return _Kind.MISSING if isinstance(error, OSError | WrongSize) else _Kind.DAMAGED


def _raise_failure(group: Group | None, path: Path, failures: Sequence[_Failure]) -> None:
    """By rank. A checkpoint is damaged only if no rank says that it may be intact."""
    kinds = [failure.kind for failure in failures]
    if _Kind.UNREADABLE in kinds:
        rank = kinds.index(_Kind.UNREADABLE)
        text = failures[rank].text
        is_everywhere = {*kinds} == {_Kind.UNREADABLE}
        raise Unreadable(text if is_everywhere else f"{_worker(rank, failures)}: {text}")
    if _Kind.DAMAGED in kinds:
        raise Damaged(failures[kinds.index(_Kind.DAMAGED)].text)
    if _Kind.MISSING in kinds:
        _ask_others(group, path, failures, kinds.index(_Kind.MISSING))


def _worker(rank: int, failures: Sequence[_Failure]) -> str:
    return f"worker {rank} on {failures[rank].host}"


def _ask_others(group: Group | None, path: Path, failures: Sequence[_Failure], failed: int) -> None:
    """Raises Unreadable if another rank can read the file that rank `failed` cannot, else Damaged.

    Its file server may not show it yet, its mount may be gone, or the directory is not shared.
    """
    file = failures[failed].file
    text = failures[failed].text
    is_asked = group is not None and group.rank != failed
    readers = all_gather_object(group, is_asked and _can_read(path, file))
    if True not in readers:
        raise Damaged(text)
    raise Unreadable(
        f"{_worker(failed, failures)} cannot read a file that worker {readers.index(True)} can "
        f"read: {text}; all pods must share the directory: repair its mount there, and start the "
        "job again"
    )


def _can_read(path: Path, file: str) -> bool:
    """Whether this rank gets the file as it was written."""
    try:
        restore.verify_file(path, file)
    except LOAD_ERRORS:
        return False
    return True
