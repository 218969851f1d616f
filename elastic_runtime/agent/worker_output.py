"""Where the output of a worker goes: to files, and to the console with the worker's name.

A file is given to the process itself, so that it never waits for the agent. What also goes to the
console comes through a pipe, because each line gets the name.
"""

import asyncio
import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from elastic_runtime.agent.console import CONSOLE
from elastic_runtime.agent.settings import PodSettings

log = logging.getLogger(__name__)
# A line is passed on in parts of so many bytes.
MAX_LINE = 1 << 16
STREAMS = ("stdout", "stderr")


def worker_name(pod: int, local_rank: int, ranks: int) -> str:
    """The pod's index; with several workers in a pod also the number of this one."""
    return str(pod) if ranks == 1 else f"{pod}.{local_rank}"


def open_streams(settings: PodSettings, local_rank: int) -> "tuple[OutputStream, OutputStream]":
    """stdout and stderr of a worker that is about to start. Raises OSError without descriptors."""
    name = worker_name(settings.index, local_rank, settings.ranks)
    folder = settings.log_dir / name if settings.log_dir else None
    # The descriptors are torchrun's numbers: 1 is stdout, 2 is stderr, 3 is both.
    streams = list[OutputStream]()
    with ExitStack() as opened:
        for descriptor, stream in enumerate(STREAMS, 1):
            path = folder / f"{stream}.log" if folder else None
            console = descriptor if settings.tee & descriptor else None
            streams.append(OutputStream(path, console, f"[{name}]: "))
            opened.callback(streams[-1].discard)
        opened.pop_all()
    stdout, stderr = streams
    return stdout, stderr


class OutputStream:
    """`descriptor` is for the process. None: it writes where the agent writes."""

    def __init__(self, path: Path | None, console: int | None, prefix: str) -> None:
        """`console`: the descriptor that gets every line too, after `prefix`."""
        self._console = console
        self._prefix = prefix.encode()
        self._read_end: int | None = None
        self.descriptor: int | None = None
        if console is not None:
            self._read_end, self.descriptor = os.pipe()
        # After the pipe, which may fail.
        self._file = _append_to(path) if path else None
        if console is None and self._file:
            self.descriptor = self._file.fileno()

    def release(self) -> None:
        """Close what only the process needs, once it has started."""
        if self._read_end is not None and self.descriptor is not None:
            os.close(self.descriptor)
        elif self._file:
            self._file.close()
        self.descriptor = None

    def discard(self) -> None:
        """Close it: the process did not start."""
        self.release()
        if self._read_end is not None:
            os.close(self._read_end)
        if self._file:
            self._file.close()

    async def copy(self) -> None:
        """Pass on what the process writes, until it and its children have closed the stream."""
        if self._read_end is None:
            return
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._read_end, "rb")
        )
        rest = b""
        try:
            while data := await reader.read(MAX_LINE):
                *lines, rest = (rest + data).split(b"\n")
                self._write([line + b"\n" for line in lines])
                if len(rest) >= MAX_LINE:
                    self._write([rest])
                    rest = b""
        finally:
            if rest:
                self._write([rest + b"\n"])
            transport.close()
            if self._file:
                self._file.close()

    def _write(self, lines: list[bytes]) -> None:
        if self._file:
            try:
                self._file.write(b"".join(lines))
            except OSError as error:
                log.error("output is not logged any more", extra={"reason": str(error)})
                self._file.close()
                self._file = None
        if self._console is not None and lines:
            CONSOLE.write(self._console, [self._prefix + line for line in lines])


def _append_to(path: Path) -> BinaryIO | None:
    """None, and a line in the log, if it cannot be opened: a job trains on without its log."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "ab", buffering=0)
    except OSError as error:
        log.error("output is not logged", extra={"reason": str(error)})
        return None
