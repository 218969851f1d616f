"""One process of a pod: the command as a child, the socket to it, and how it does."""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from elastic_runtime.agent import control_server
from elastic_runtime.agent.hang_detection import Pulse

PARENT_FD_ENV = "CEDE_PARENT_FD"
LOCAL_RANK_ENV = "LOCAL_RANK"
RANKS_ENV = "LOCAL_WORLD_SIZE"
NONE = "no stacks: "
# it will not even take a signal
STOPPED = f"{NONE}State:\tT"
# For torch's NCCL, where a user has not said otherwise: who is lost is told by the parents, and the
# runtime aborts; torch ends nobody.
NCCL = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    # seconds; for torch to give up a communicator that does not connect. It is 1800 unset
    "TORCH_NCCL_NONBLOCKING_TIMEOUT": "60",
}
# For glibc, likewise: what a step frees stays with the process, up to 256 MiB. It goes back and is
# fetched anew in every step otherwise,
# or not, as the heap happens to lie; a page costs so much that an optimizer on a CPU takes half as
# long again.
# bytes; the second is glibc's own bound
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
# how long a process may take to write its stacks: its handler needs no lock of Python's
STACKS_S = 0.1


class Child:
    """What it said of itself, and when by `clock`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stacks: int,
        clock: Callable[[], float],
    ) -> None:
        self.process = process
        self.reader = reader
        self.writer = writer
        self.ready = False
        self.parked = False
        self.finished = False
        self.arrived = False
        self.listens = False
        self.killed = False
        self._closed = False
        # well, though its job may go on: a command that knows nothing of us
        self.ended = False
        # since it formed
        self.steps = 0
        # `stacks`: descriptor of the file it writes them to
        self._clock = clock
        self._stacks = stacks
        self._stepped = clock()
        self._asked: float | None = None
        # when it answered last, or was asked first
        self._alive = clock()
        # of 16 s, of 64 steps
        self._answers, self._seconds = deque[float](maxlen=320), deque[float](maxlen=64)

    def tell(self, **message: Any) -> None:
        with suppress(OSError):
            self.writer.write(control_server.dump(message) + b"\n")

    def ask(self) -> None:
        """Whether it lives; one question at a time."""
        if self._asked is None:
            self._asked = self._clock()
            self._alive = self._alive if self.listens else self._asked
            self.tell(tell="ping")

    def answered(self) -> None:
        self.listens = True
        if self._asked is not None:
            self._alive = self._clock()
            self._answers.append(self._alive - self._asked)
            self._asked = None

    def stepped(self, seconds: float) -> None:
        self.steps, self.arrived, self._stepped = self.steps + 1, False, self._clock()
        # the first step of a generation holds the pause
        if self.steps > 1:
            self._seconds.append(seconds)

    def moves(self) -> None:
        """It left its generation or formed the next: what it does now takes its time."""
        self.steps, self.arrived, self._stepped = 0, False, self._clock()
        self._answers.clear()

    def pulse(self) -> Pulse:
        now = self._clock()
        seconds = self._seconds
        unanswered = 0.0 if self._asked is None or not self.ready else now - self._alive
        slowest_answer = max(self._answers, default=0.0)
        slowest_step = max(seconds, default=0.0)
        step_s = median(seconds) if seconds else 0.0
        return Pulse(
            self.steps,
            len(self._answers),
            self.arrived,
            unanswered,
            now - self._stepped,
            slowest_answer,
            step_s,
            slowest_step,
        )

    async def stacks(self) -> str:
        """Of all its threads, as faulthandler writes them; of a process that cannot even do that,
        what the kernel says of it."""
        if self._closed:
            return "it is gone"
        # it may not listen for the signal yet, and would die of it
        if not self.listens:
            return "it is starting"
        # ours until the end: meanwhile it may be closed, and the number given to something else
        written = os.dup(self._stacks)
        try:
            before = os.fstat(written).st_size
            if (state := _state(self.process.pid)).startswith(STOPPED):
                return state
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGRTMIN)
            size = before
            end = asyncio.get_running_loop().time() + STACKS_S
            while asyncio.get_running_loop().time() < end:
                await asyncio.sleep(STACKS_S / 10)
                if size != before and size == os.fstat(written).st_size:
                    break
                size = os.fstat(written).st_size
            return os.pread(written, control_server.LIMIT, before).decode(
                errors="replace"
            ) or _state(self.process.pid)
        finally:
            os.close(written)

    def kill(self) -> None:
        """It and whatever it started; what outlives it, as workers that read data do for seconds,
        holds its socket open."""
        # once: later the number may be another's
        if not self.killed:
            self.killed = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """What we held of it: else every process that is started again would leave descriptors
        behind."""
        self._closed = True
        # a close would wait until somebody reads what it was told last
        self.writer.transport.abort()
        os.close(self._stacks)


def _state(pid: int) -> str:
    """Of a process that writes no stacks: its state and the call of the kernel it waits in."""
    found = []
    for name, pattern in (("status", "State:"), ("wchan", "")):
        with suppress(OSError):
            found += [
                line.strip()
                for line in Path(f"/proc/{pid}/{name}").read_text().splitlines()
                if line.startswith(pattern)
            ]
    return NONE + ", ".join(found)


async def spawn(script: Sequence[str], local: int, ranks: int, clock: Callable[[], float]) -> Child:
    """The process, told where to write its stacks when signal SIGRTMIN asks for them."""
    ours, theirs = socket.socketpair()
    stacks = os.memfd_create("stacks")
    env = {
        **NCCL,
        **MALLOC,
        **os.environ,
        PARENT_FD_ENV: str(theirs.fileno()),
        LOCAL_RANK_ENV: str(local),
        RANKS_ENV: str(ranks),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-u",
        *script,
        env=env,
        pass_fds=[theirs.fileno(), stacks],
        start_new_session=True,
    )
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours, limit=control_server.LIMIT)
    child = Child(process, reader, writer, stacks, clock)
    child.tell(tell="stacks", file=stacks)
    return child


async def spied(pid: int) -> str:
    """What py-spy sees of the process, native frames included; empty where it is not installed."""
    if not shutil.which("py-spy"):
        return ""
    try:
        spy = await asyncio.create_subprocess_exec(
            "py-spy",
            "dump",
            "--nonblocking",
            "--native",
            "--pid",
            str(pid),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(1.0):
            return (await spy.communicate())[0].decode(errors="replace")
    except TimeoutError:
        spy.kill()
        await spy.wait()
        return ""
