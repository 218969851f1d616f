"""One worker process of a pod: the script as a child process, and the socket to it."""

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from statistics import median

from elastic_runtime import contract
from elastic_runtime.agent.hang_detection import Pulse
from elastic_runtime.agent.native_stacks import (
    CPU_TICK_S,
    STOPPED_STATE,
    cpu_seconds,
    kernel_state,
)
from elastic_runtime.agent.settings import (
    AGENT_FD_ENV,
    AGENT_PID_ENV,
    LOCAL_RANK_ENV,
    PodSettings,
)
from elastic_runtime.agent.worker_output import OutputStream, open_streams
from elastic_runtime.json_codec import MAX_TEXT
from elastic_runtime.messages import AgentMessage, Failed, Ping, StacksFile, encode_line

log = logging.getLogger(__name__)
# Defaults for torch's NCCL; the user's own environment wins. The agents detect a lost rank and the
# runtime aborts the group, so torch must not end the process.
NCCL_DEFAULTS = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    # Seconds until torch gives up a communicator that does not connect; torch's own is 1800.
    "TORCH_NCCL_NONBLOCKING_TIMEOUT": "60",
}
# Defaults for glibc: up to 256 MiB of freed memory stays with the process. Otherwise each step
# may return its memory to the kernel and fetch it again, which makes an optimizer on a CPU take
# half as long again. Both are bytes; the second is the largest that glibc accepts.
MALLOC_DEFAULTS = {
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
}
# So many tell whether a process computes; there are 20 a second.
CPU_SAMPLES = 17
# A process writes its stacks within this time: the signal handler needs no lock of Python's.
STACKS_TIMEOUT_S = 0.1
# Bytes of one message, and of the stacks of a process.
MAX_BYTES = MAX_TEXT
# How often a process is started for which no file can be opened, and the seconds between.
SPAWN_TRIES = 60
SPAWN_INTERVAL_S = 1.0


class WorkerProcess:
    """A worker process, its last reports, and when they came by `clock`."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stacks: int,
        clock: Callable[[], float],
    ) -> None:
        """`stacks`: descriptor of the file that the process writes its stacks to."""
        self.process = process
        self.reader = reader
        self.writer = writer
        self.ready = False
        self.parked = False
        self.finished = False
        # The process waits for the other ranks in the step in flight.
        self.arrived = False
        # The process has answered a ping, so its signal handler for stacks is in place.
        self.listens = False
        self.killed = False
        # The process ended with exit code 0, though its job may continue: an external command.
        self.ended = False
        # The process ended with exit code 0 before its job did.
        self.left_early = False
        # The process waits for a generation to form.
        self.joins = False
        # Why the script ends, if an exception ends it.
        self.failure: Failed | None = None
        # Its stdout and stderr.
        self.output: tuple[OutputStream, ...] = ()
        # Committed since the generation formed, and micro-batches begun of an evaluation.
        self.steps = 0
        self.evaluated = 0
        self._closed = False
        self._clock = clock
        self._stacks = stacks
        self._last_step_at = clock()
        # When the unanswered ping was sent; None if every ping is answered.
        self._pinged_at: float | None = None
        # The last answer, or before any answer the first ping.
        self._alive_at = clock()
        # Seconds of the answers in the last 16 s, and of the last 64 steps.
        self._answer_seconds = deque[float](maxlen=320)
        # (time, CPU seconds used), when the last pings were due.
        self._cpu_seconds = deque[tuple[float, float]](maxlen=CPU_SAMPLES)
        self._step_seconds = deque[float](maxlen=64)

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while the process runs."""
        return self.process.returncode

    def send(self, message: AgentMessage) -> None:
        with suppress(OSError):
            self.writer.write(encode_line(message))

    def ping(self) -> None:
        """Ask whether the process answers; one ping at a time."""
        self._cpu_seconds.append((self._clock(), cpu_seconds(self.process.pid)))
        if self._pinged_at is None:
            self._pinged_at = self._clock()
            if not self.listens:
                self._alive_at = self._pinged_at
            self.send(Ping())

    def receive_ready(self) -> None:
        """Its first ping may have waited for as long as it imported torch, which is no silence."""
        self.ready = True
        self.joins = True
        if not self.listens and self._pinged_at is not None:
            self._alive_at = self._pinged_at = self._clock()

    def receive_pong(self) -> None:
        self.listens = True
        if self._pinged_at is not None:
            self._alive_at = self._clock()
            self._answer_seconds.append(self._alive_at - self._pinged_at)
            self._pinged_at = None

    def commit_step(self, seconds: float) -> None:
        self.steps += 1
        self.arrived = False
        self._last_step_at = self._clock()
        # The first step of a generation includes the pause.
        if self.steps > 1:
            self._step_seconds.append(seconds)

    def evaluate(self, micro_batches: int, *, waits: bool) -> None:
        """The process makes progress in an evaluation, or ends it (0), or waits for other ranks."""
        self.evaluated = micro_batches
        self.arrived = waits
        self._last_step_at = self._clock()

    def change_generation(self, *, joins: bool) -> None:
        """The process left its generation or formed the next one, which may take long.

        `joins`: it waits for the next one.
        """
        self.joins = joins
        self.steps = 0
        self.evaluate(0, waits=False)
        self._answer_seconds.clear()

    def pulse(self) -> Pulse:
        now = self._clock()
        unanswered = self._pinged_at is not None and self.ready
        return Pulse(
            steps=self.steps,
            evaluated=self.evaluated,
            answers=len(self._answer_seconds),
            arrived=self.arrived,
            unanswered_s=now - self._alive_at if unanswered else 0.0,
            cpu_share=self._cpu_share(),
            since_step_s=now - self._last_step_at,
            slowest_answer_s=max(self._answer_seconds, default=0.0),
            median_step_s=median(self._step_seconds) if self._step_seconds else 0.0,
            slowest_step_s=max(self._step_seconds, default=0.0),
        )

    def _cpu_share(self) -> float:
        """CPU seconds a second, of all its threads; 0 before anybody knows."""
        if len(self._cpu_seconds) < 2:
            return 0.0
        (first, used_before), (last, used) = self._cpu_seconds[0], self._cpu_seconds[-1]
        return (used - used_before) / max(last - first, CPU_TICK_S)

    async def stacks(self) -> str:
        """The stacks of all threads, written by faulthandler.

        If the process cannot write them: its state in the kernel.
        """
        if self._closed:
            return "the process has ended"
        # The process has no signal handler yet: the signal would end it.
        if not self.listens:
            return "the process is starting"
        # A descriptor of our own: `close` may run meanwhile, and the number may be reused.
        descriptor = os.dup(self._stacks)
        try:
            start = os.fstat(descriptor).st_size
            state = kernel_state(self.process.pid)
            if state.startswith(STOPPED_STATE):
                return state
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGRTMIN)
            await _wait_until_written(descriptor, start)
            text = os.pread(descriptor, MAX_BYTES, start).decode(errors="replace")
            return text or kernel_state(self.process.pid)
        finally:
            os.close(descriptor)

    def kill(self) -> None:
        """Kill the process and its children, which would keep its end of the socket open."""
        # Only once: later the process id may belong to another process.
        if not self.killed:
            self.killed = True
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Release the descriptors: a process that restarts again and again must not leak them."""
        self._closed = True
        # A close would wait until the process reads what was sent last.
        self.writer.transport.abort()
        os.close(self._stacks)


async def _wait_until_written(descriptor: int, start: int) -> None:
    """Until the file has more than `start` bytes and stops growing; `STACKS_TIMEOUT_S` at most."""
    size = start
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STACKS_TIMEOUT_S
    while loop.time() < deadline:
        await asyncio.sleep(STACKS_TIMEOUT_S / 10)
        new_size = os.fstat(descriptor).st_size
        if size != start and size == new_size:
            return
        size = new_size


async def spawn(
    script: Sequence[str], settings: PodSettings, local_rank: int, clock: Callable[[], float]
) -> WorkerProcess:
    """Start one of the pod's processes. On SIGRTMIN it writes its stacks to a file.

    Tried again while no file can be opened: connections of strangers are closed soon.
    """
    for _ in range(SPAWN_TRIES - 1):
        try:
            return await _spawn(script, settings, local_rank, clock)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            log.warning("a worker cannot start yet", extra={"reason": str(error)})
        await asyncio.sleep(SPAWN_INTERVAL_S)
    return await _spawn(script, settings, local_rank, clock)


async def _spawn(
    script: Sequence[str], settings: PodSettings, local_rank: int, clock: Callable[[], float]
) -> WorkerProcess:
    with ExitStack() as opened:
        agent_end, worker_end = (opened.enter_context(end) for end in socket.socketpair())
        stacks = os.memfd_create("stacks")
        opened.callback(os.close, stacks)
        output = open_streams(settings, local_rank)
        for stream in output:
            opened.callback(stream.discard)
        env = {
            **NCCL_DEFAULTS,
            **MALLOC_DEFAULTS,
            **os.environ,
            AGENT_FD_ENV: str(worker_end.fileno()),
            AGENT_PID_ENV: str(os.getpid()),
            LOCAL_RANK_ENV: str(local_rank),
            contract.RANKS_ENV: str(settings.ranks),
        }
        reader, writer = await asyncio.open_connection(sock=agent_end, limit=MAX_BYTES)
        opened.callback(writer.transport.abort)
        # Nothing is awaited after this call. If the call is cancelled, asyncio kills the process.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", *script),
            env=env,
            stdout=output[0].descriptor,
            stderr=output[1].descriptor,
            pass_fds=[worker_end.fileno(), stacks],
            start_new_session=True,
        )
        opened.pop_all()
    worker_end.close()
    for stream in output:
        stream.release()
    worker = WorkerProcess(process, reader, writer, stacks, clock)
    worker.output = output
    worker.send(StacksFile(stacks))
    return worker
