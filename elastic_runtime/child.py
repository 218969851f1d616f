"""One process of a pod: the command as a child, and the socket to it."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from elastic_runtime import control

PARENT_FD_ENV, LOCAL_RANK_ENV, RANKS_ENV = "CEDE_PARENT_FD", "LOCAL_RANK", "LOCAL_WORLD_SIZE"


class Child:
    """What it said of itself; the rest is in the parent's facts."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.process, self.reader, self.writer = process, reader, writer
        self.ready = self.parked = self.finished = self._killed = False

    def tell(self, **message: Any) -> None:
        with suppress(OSError):
            self.writer.write(control.dump(message) + b"\n")

    def kill(self) -> None:
        """It and whatever it started; what outlives it, as workers that read data do for seconds, holds its socket open."""
        if not self._killed:  # once: later the number may be another's
            self._killed = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Our end of the socket: else every process that is started again would leave one behind."""
        self.writer.close()


async def spawn(script: Sequence[str], local: int, ranks: int) -> Child:
    ours, theirs = socket.socketpair()
    env = {**os.environ, PARENT_FD_ENV: str(theirs.fileno()), LOCAL_RANK_ENV: str(local), RANKS_ENV: str(ranks)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", *script, env=env, pass_fds=[theirs.fileno()], start_new_session=True
    )
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours, limit=control.LIMIT)
    return Child(process, reader, writer)
