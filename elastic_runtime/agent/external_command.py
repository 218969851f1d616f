"""A command that knows nothing of us, as a pod's only process: asked to go by a signal, it answers
by its end or by touching a file.

    python -m elastic_runtime --signal USR1 [--done FILE] -- any command

It runs while its pod is wanted. Asked to go, by the size or by SIGTERM, it gets the signal once,
and has handed over when it has ended or
has touched FILE. If it is wanted again it is started again, unless it still runs. Its own end ends
the pod, with its exit code.
"""

import asyncio
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elastic_runtime.agent.membership import Record
from elastic_runtime.agent.worker_process import LOCAL_RANK_ENV, PARENT_FD_ENV, RANKS_ENV

log = logging.getLogger(__name__)
# between two looks at FILE
LOOK_S = 0.1


def script(sign: str, done: str, command: Sequence[str]) -> list[str]:
    """What the parent runs as its process. Raises ValueError for a signal that is none."""
    if not hasattr(signal.Signals, f"SIG{sign.removeprefix('SIG')}"):
        raise ValueError(f"--signal is {sign!r}: it must be the name of a signal, as USR1 or TERM")
    return [
        "-m",
        "elastic_runtime.agent.external_command",
        f"SIG{sign.removeprefix('SIG')}",
        done,
        *command,
    ]


class Signalled:
    def __init__(
        self, sign: signal.Signals, done: Path | None, command: Sequence[str], env: dict[str, str]
    ) -> None:
        self.sign = sign
        self.done = done
        self.command = command
        self.env = env
        self.process: asyncio.subprocess.Process | None = None
        self._told = asyncio.Event()
        self._record = Record()
        self._index = -1
        self._leaving = False
        self._parked = False
        # the generation that was formed or parked in
        self._settled = 0

    async def run(self, descriptor: int) -> int:
        """Until the command ends of its own; its exit code. The parent ends us in every other
        case."""
        reader, self._writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
        hearing = asyncio.create_task(self._hear(reader))
        self._say("ready")
        while True:
            await self._told.wait()
            self._told.clear()
            if self._leaving:
                await self._park()
            elif self._record.generation > self._settled:
                await self._settle(self._record)
            if hearing.done() or (
                self.process and self.process.returncode is not None and not self._parked
            ):
                break
        hearing.cancel()
        code = (
            self.process.returncode if self.process and self.process.returncode is not None else 1
        )
        if code == 0:
            self._say("ended")
            await self._writer.drain()
        return code if code >= 0 else 128 - code

    async def _settle(self, record: Record) -> None:
        """Run in this generation, or hand over because it goes on without us."""
        if record.stop or self._index not in record.members:
            await self._park()
        elif record.store:
            await self._start()
            self._say("formed", generation=record.generation, members=record.members, step=0)
        else:
            # nobody meets there; what the others wait for is that it is said
            if record.members[0] == self._index:
                self._say("store", generation=record.generation, port=0)
            return
        self._settled = record.generation

    async def _start(self) -> None:
        self._parked = False
        if self.process is None or self.process.returncode is not None:
            self.process = await asyncio.create_subprocess_exec(*self.command, env=self.env)
            self._ends = asyncio.create_task(self._end(self.process))

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._told.set()

    async def _park(self) -> None:
        """Afterwards the command was asked to go and has answered."""
        if self.process and self.process.returncode is None and not self._parked:
            if self.done:
                self.done.unlink(missing_ok=True)
            log.info("command asked to go", extra={"signal": self.sign.name})
            self.process.send_signal(self.sign)
            while self.process.returncode is None and not (self.done and self.done.exists()):  # noqa: ASYNC110  a file tells nobody
                await asyncio.sleep(LOOK_S)
        self._parked = True
        self._say("parked", step=0, generation=self._record.generation)

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            told = json.loads(line)
            match told["tell"]:
                case "record":
                    self._record = Record.read(told["record"])
                    self._index = told["index"]
                case "leave":
                    self._leaving = True
                case "ping":
                    self._say("pong")
                    continue
                case "stacks":
                    faulthandler.register(signal.SIGRTMIN, file=told["file"])
            self._told.set()
        # the parent is gone
        self._told.set()

    def _say(self, what: str, **facts: Any) -> None:
        self._writer.write(json.dumps({"say": what, **facts}).encode() + b"\n")


def main(sign: str, done: str, *command: str) -> int:
    env = dict(os.environ)
    descriptor = int(env.pop(PARENT_FD_ENV))
    # to the command they would mean what its own launcher means by them
    del env[LOCAL_RANK_ENV], env[RANKS_ENV]
    return asyncio.run(
        Signalled(signal.Signals[sign], Path(done) if done else None, command, env).run(descriptor)
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
