"""Runs a command that does not know Cede as a pod's only worker process.

    python -m elastic_runtime --signal USR1 [--done FILE] -- any command

The command runs while its pod is wanted. When the pod must leave, because of the size or SIGTERM,
the command gets the signal once. It has handed over when it has ended or has touched FILE. If the
pod is wanted again, the command is started again, unless it still runs. When the command ends by
itself the pod ends, with the same exit code.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from elastic_runtime import messages
from elastic_runtime.agent.settings import AGENT_FD_ENV, LOCAL_RANK_ENV
from elastic_runtime.messages import (
    AgentMessage,
    Record,
    WorkerMessage,
    decode_agent_message,
    encode_line,
)

log = logging.getLogger(__name__)
# Between two checks for FILE.
POLL_INTERVAL_S = 0.1


def script(signal_name: str, done_file: str, command: Sequence[str]) -> list[str]:
    """The worker process that an agent starts. Raises ValueError for an unknown signal."""
    full_name = f"SIG{signal_name.removeprefix('SIG')}"
    if not hasattr(signal.Signals, full_name):
        raise ValueError(
            f"--signal is {signal_name!r}: it must be the name of a signal, such as USR1 or TERM"
        )
    return ["-m", "elastic_runtime.agent.external_command", full_name, done_file, *command]


class ExternalCommand:
    def __init__(
        self,
        stop_signal: signal.Signals,
        done_file: Path | None,
        command: Sequence[str],
        env: dict[str, str],
    ) -> None:
        self.stop_signal = stop_signal
        self.done_file = done_file
        self.command = command
        self.env = env
        self.process: asyncio.subprocess.Process | None = None
        # The agent sent something, or the command ended.
        self._changed = asyncio.Event()
        self._record = Record()
        self._index = -1
        self._leaving = False
        self._parked = False
        # The newest generation that this pod trains in or is parked for.
        self._settled_generation = 0

    async def run(self, descriptor: int) -> int:
        """Until the command ends by itself; its exit code. Otherwise the agent ends this process.

        `descriptor`: of the socket to the agent.
        """
        reader, self._writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
        receiver = asyncio.create_task(self._receive_all(reader))
        self._send(messages.Ready())
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._leaving:
                await self._park()
            elif self._record.generation > self._settled_generation:
                await self._settle(self._record)
            if receiver.done() or (self._has_ended() and not self._parked):
                break
        receiver.cancel()
        code = 1
        if self.process and self.process.returncode is not None:
            code = self.process.returncode
        if code == 0:
            self._send(messages.CommandEnded())
            await self._writer.drain()
        return code if code >= 0 else 128 - code

    async def _settle(self, record: Record) -> None:
        """Run in this generation, or hand over because it does not include this pod."""
        if record.stop or self._index not in record.members:
            await self._park()
        elif record.store:
            await self._start()
            self._send(messages.Formed(record.generation, record.members, step=0))
        else:
            # Commands need no store, but the others wait until one is reported.
            if record.members[0] == self._index:
                self._send(messages.StoreOpened(record.generation, port=0))
            return
        self._settled_generation = record.generation

    async def _start(self) -> None:
        self._parked = False
        if not self._runs():
            self.process = await asyncio.create_subprocess_exec(*self.command, env=self.env)
            self._waiting = asyncio.create_task(self._wait_for_end(self.process))

    def _runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def _has_ended(self) -> bool:
        return self.process is not None and self.process.returncode is not None

    def _has_touched_file(self) -> bool:
        return self.done_file is not None and self.done_file.exists()

    async def _wait_for_end(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._changed.set()

    async def _park(self) -> None:
        """Ask the command to stop, and wait until it has ended or touched its file."""
        if self.process and self._runs() and not self._parked:
            if self.done_file:
                # A file of an earlier run is no answer.
                self.done_file.unlink(missing_ok=True)
            log.info("command asked to stop", extra={"signal": self.stop_signal.name})
            self.process.send_signal(self.stop_signal)
            # Nothing notifies us of a new file.
            while self._runs() and not self._has_touched_file():  # noqa: ASYNC110
                await asyncio.sleep(POLL_INTERVAL_S)
        self._parked = True
        self._send(messages.Parked(step=0, generation=self._record.generation))

    async def _receive_all(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            self._receive(decode_agent_message(line))
        # The agent has ended.
        self._changed.set()

    def _receive(self, message: AgentMessage) -> None:
        match message:
            case messages.NewRecord():
                self._record = message.record
                self._index = message.index
            case messages.Leave():
                self._leaving = True
            case messages.Ping():
                self._send(messages.Pong())
                return
            case messages.StacksFile():
                faulthandler.register(signal.SIGRTMIN, file=message.descriptor)
        self._changed.set()

    def _send(self, message: WorkerMessage) -> None:
        self._writer.write(encode_line(message))


def main(signal_name: str, done_file: str, *command: str) -> int:
    env = dict(os.environ)
    descriptor = int(env.pop(AGENT_FD_ENV))
    # A command that starts an elastic job of its own is no rank of this one.
    del env[LOCAL_RANK_ENV]
    path = Path(done_file) if done_file else None
    worker = ExternalCommand(signal.Signals[signal_name], path, command, env)
    return asyncio.run(worker.run(descriptor))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
