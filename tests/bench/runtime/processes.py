"""A job of a benchmark: its folder, its processes, and waiting for its events."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from tests.bench.runtime import peers
from tests.bench.runtime.commits import Commit, Resumed, read_events, resumed
from tests.harness import local_job

# Time limits of a job's start and of its resuming.
START_S = 300.0
EVENT_S = 120.0
WORKERS = Path(__file__).parent / "workers"
T = TypeVar("T")


class TooLong(Exception):
    """An expected event did not happen in time."""


def until(probe: Callable[[], T | None], seconds: float, what: str) -> T:
    """The first value of `probe` that is not None. Raises TooLong after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (value := probe()) is not None:
            return value
        time.sleep(0.05)
    raise TooLong(f"{what}: not within {seconds:g} s")


def free_port(count: int = 1) -> int:
    """The first of `count` free ports in a row."""
    while True:
        port = local_job.free_port()
        with suppress(OSError):
            for number in range(port + 1, port + count):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", number))
            return port


def children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    below = children(pid)
    for child in children(pid):
        below += descendants(child)
    return below


def kill(pid: int, sign: signal.Signals = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, sign)


class Job:
    """The processes of one job, as a context: at its end they are killed and the folder is
    removed."""

    def __init__(self, *paths: Path, **more: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cede-bench-"))
        self.env = peers.environment(*paths, BENCH_FOLDER=str(self.folder), **more)
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self) -> None:
        """Starts the processes; the job trains when this returns."""

    def __exit__(self, *_: object) -> None:
        (self.folder / "stop").touch()
        for process in self.processes:
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"out-{len(self.processes)}.txt", "wb") as output:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env=self.env | more,
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def wait(self, seconds: float) -> None:
        """Returns when all processes have ended with success; otherwise raises TooLong."""
        try:
            failed = any(process.wait(seconds) for process in self.processes)
        except subprocess.TimeoutExpired as error:
            raise TooLong(f"{error} ({self.output()})") from error
        if failed:
            raise TooLong(self.output())

    def raise_if_ended(self) -> None:
        """What is awaited of a job that has ended never happens."""
        if all(process.poll() is not None for process in self.processes):
            raise TooLong(f"the job has ended ({self.output()})")

    def commits(self) -> list[Commit]:
        return read_events(self.folder)

    def steady(
        self, world: int, steps: int = 6, after: float = 0.0, seconds: float = START_S
    ) -> None:
        """Returns when each of `world` ranks has committed `steps` steps since `after`."""

        def is_steady() -> bool | None:
            self.raise_if_ended()
            counts = Counter(
                (c.rank, c.era) for c in self.commits() if c.world == world and c.time > after
            )
            return True if sum(n >= steps for n in counts.values()) >= world else None

        until(is_steady, seconds, f"{steps} steps of {world} ranks ({self.output()})")

    def back(self, new: Callable[[Commit], bool], world: int, seconds: float = EVENT_S) -> Resumed:
        """How the job resumed with `world` ranks in the era of which `new` is true."""
        return until(
            lambda: resumed(self.commits(), new, world),
            seconds,
            f"training again with {world} ranks ({self.output()})",
        )

    def output(self) -> str:
        """The last lines that the processes wrote, for an error message."""
        return " | ".join(
            path.read_text(errors="replace")[-120:].strip()
            for path in sorted(self.folder.glob("out-*.txt"))
        )
