"""A worker process that runs a command which does not speak with the agent itself."""

import asyncio
import faulthandler
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from elastic_runtime import messages
from elastic_runtime.json_codec import MAX_TEXT
from elastic_runtime.messages import (
    AgentMessage,
    Record,
    WorkerMessage,
    decode_agent_message,
    encode_line,
)

SAVES_AT_STOPS = (
    "nothing was saved: a command under --restart or --signal is asked to save when it is to stop"
)


class CommandWorker(ABC):
    """`process`: the command, once it has been started. `record`: the newest one received.

    `leaving`: the pod is terminating.
    """

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.record = Record()
        self.leaving = False
        self._index = -1
        # The agent sent something, or the command ended.
        self._changed = asyncio.Event()

    @abstractmethod
    async def react(self) -> int | None:
        """Do what the record demands. The exit code of this process, once it is to end."""

    async def run(self, descriptor: int) -> int:
        """Until `react` returns an exit code. Otherwise the agent ends this process.

        `descriptor`: of the socket to the agent.
        """
        sock = socket.socket(fileno=descriptor)
        # A record of a large job is longer than asyncio's own limit.
        reader, self._writer = await asyncio.open_connection(sock=sock, limit=MAX_TEXT)
        receiver = asyncio.create_task(self._receive_all(reader))
        self.send(messages.Ready())
        code = None
        try:
            while code is None and not receiver.done():
                await self._changed.wait()
                self._changed.clear()
                code = await self.react()
            await self._writer.drain()
        except ConnectionError:
            # The agent has ended meanwhile, and kills this process.
            pass
        finally:
            receiver.cancel()
            self._writer.close()
        if code is None and receiver.done() and not receiver.cancelled():
            # Raises what ended it.
            receiver.result()
        return 1 if code is None else code

    @property
    def is_member(self) -> bool:
        """Whether this pod is to train in the newest generation."""
        return not (self.leaving or self.record.stop) and self._index in self.record.members

    @property
    def position(self) -> int:
        """Of this pod among the members."""
        return self.record.members.index(self._index)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.process = await asyncio.create_subprocess_exec(*command, env=env)
        self._waiting = asyncio.create_task(self._wait_for_end(self.process))

    async def _wait_for_end(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self._changed.set()

    async def _receive_all(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._receive(decode_agent_message(line))
        finally:
            # The agent has ended, or is not understood.
            self._changed.set()

    def _receive(self, message: AgentMessage) -> None:
        match message:
            case messages.NewRecord():
                self.record = message.record
                self._index = message.index
            case messages.Leave():
                self.leaving = True
            case messages.SaveRequested():
                self.send(messages.Progress(save_message=SAVES_AT_STOPS))
                return
            case messages.Ping():
                self.send(messages.Pong())
                return
            case messages.StacksFile():
                faulthandler.register(signal.SIGRTMIN, file=message.descriptor)
        self._changed.set()

    def send(self, message: WorkerMessage) -> None:
        self._writer.write(encode_line(message))


def exit_code(returncode: int) -> int:
    """As a shell reports it. `returncode`: negative for a signal."""
    return returncode if returncode >= 0 else 128 - returncode


def signal_named(name: str) -> signal.Signals:
    """Raises ValueError for an unknown one."""
    full_name = f"SIG{name.removeprefix('SIG')}"
    if not hasattr(signal.Signals, full_name):
        raise ValueError(
            f"--signal is {name!r}: it must be the name of a signal, such as USR1 or TERM"
        )
    return signal.Signals[full_name]
