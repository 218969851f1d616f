"""The keys that sign a job's requests, read again while the job runs: they are replaced."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from elastic_runtime import contract

log = logging.getLogger(__name__)
Keys = Callable[[], tuple[bytes, ...]]
"""Those that are valid now. The newest signs; a pod that has not read it yet knows an older one."""
# The kubelet updates the file of a running pod. It is in memory.
REREAD_S = 5.0


class KeyFile:
    """The keys in the file that the Secret of the namespace is mounted as."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Raises OSError if there is no key."""
        self._path = path
        self._clock = clock
        self._read_at = clock()
        self._content = path.read_bytes()
        try:
            contract.valid_keys(self._content, self._read_at)
        except ValueError as error:
            raise FileNotFoundError(f"a key in {path}") from error

    def __call__(self) -> tuple[bytes, ...]:
        """A file that cannot be read any more counts as it last was."""
        now = self._clock()
        # also after a clock that was ahead has been set
        if abs(now - self._read_at) >= REREAD_S:
            self._read_at = now
            self._reread(now)
        return contract.valid_keys(self._content, now)

    def _reread(self, now: float) -> None:
        try:
            content = self._path.read_bytes()
            contract.valid_keys(content, now)
        except (OSError, ValueError) as error:
            log.warning("key not read again", extra={"reason": str(error)})
            return
        if content != self._content:
            log.info("key replaced")
        self._content = content
