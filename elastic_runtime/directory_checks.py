"""Mistakes in the directories of checkpoints: those that can never be written.

A disk that is full, or fails later, stops no training.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

# What a file system answers whose mount or owner does not allow it. Others, such as ENOSPC, EIO and
# ESTALE, may end.
REFUSALS = (errno.EACCES, errno.EPERM, errno.EROFS)


def directory_mistakes(name: str, directory: Path) -> Iterator[str]:
    """When the session is created, also by a job that goes on: nothing is written."""
    existing = _existing(directory)
    if not existing.is_dir():
        yield f"{name} is {directory}, but {existing} is a file: give the path of a directory"
    elif not (os.access(existing, os.W_OK | os.X_OK) or _is_read_only(existing)):
        yield (
            f"{name} is {directory}, but this process may not write to {existing}: change its "
            "owner or mode, or give another directory"
        )


def refusal_mistakes(name: str, directory: Path) -> Iterator[str]:
    """Of a job that has no checkpoint yet: a file is created, and removed again.

    Only that shows a mount that is read-only, or whose server refuses; and root may do everything
    by `os.access`. Several ranks may call this at once.
    """
    existing = _existing(directory)
    # Hidden, as drafts are.
    file = existing / f".writable-{secrets.token_hex(8)}"
    try:
        # A file system that stores objects may refuse only when the file is closed.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(file)
    except OSError as error:
        if error.errno in REFUSALS:
            yield (
                f"{name} is {directory}, but no file can be created and removed in {existing} "
                f"({error.strerror}): mount it without readOnly, let the user of this process "
                "write there, or give another directory"
            )


def _existing(directory: Path) -> Path:
    """The directory, or the nearest one above it that exists."""
    return next(path for path in (directory, *directory.absolute().parents) if _exists(path))


def _is_read_only(path: Path) -> bool:
    # As a file system is after an error of its disk: a worker that starts again waits for its cure.
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _exists(path: Path) -> bool:
    # Path.exists raises an error below a directory that may not be read.
    return os.path.exists(path)
