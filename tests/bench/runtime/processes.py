"""A bench's job: a folder of its own, processes that end with it, and waiting for what it says."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from tests.bench.runtime import peers
from tests.bench.runtime.commits import Commit, Resumed, of_events, resumed

# how long a job may take to start, and to train again
START_S = 300.0
EVENT_S = 120.0
WORKERS = Path(__file__).parent / "workers"
T = TypeVar("T")


class TooLong(Exception):
    """What was waited for did not come."""


def until(found: Callable[[], T | None], seconds: float, what: str) -> T:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (value := found()) is not None:
            return value
        time.sleep(0.05)
    raise TooLong(f"{what}: not within {seconds:g} s")


def free_port(count: int = 1) -> int:
    """The first of `count` free ports in a row."""
    while True:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = int(held.getsockname()[1])
        with suppress(OSError):
            for number in range(port, port + count):
                with socket.socket() as held:
                    held.bind(("127.0.0.1", number))
            return port


def children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return found + [deeper for child in found for deeper in descendants(child)]


def kill(pid: int, sign: signal.Signals = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, sign)


class Job:
    """Processes of one job; use it as a context: afterwards none of them is left, and the folder is
    gone."""

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
        """Start what belongs to it; it trains when this returns."""

    def __exit__(self, *_: object) -> None:
        (self.folder / "stop").touch()
        for process in self.processes:
            for pid in [*descendants(process.pid), process.pid]:
                kill(pid)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"out-{len(self.processes)}.txt", "wb") as out:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env=self.env | more,
                stdout=out,
                stderr=out,
            )
        self.processes.append(process)
        return process

    def commits(self) -> list[Commit]:
        return of_events(self.folder)

    def steady(
        self, world: int, steps: int = 6, after: float = 0.0, seconds: float = START_S
    ) -> None:
        """Returns when `world` ranks have each committed `steps` steps together, since `after`."""

        def found() -> bool | None:
            per: dict[tuple[str, int], int] = {}
            for one in self.commits():
                if one.world == world and one.time > after:
                    per[one.who, one.era] = per.get((one.who, one.era), 0) + 1
            return True if sum(n >= steps for n in per.values()) >= world else None

        until(found, seconds, f"{steps} steps of {world} ranks ({self.said()})")

    def back(self, new: Callable[[Commit], bool], world: int, seconds: float = EVENT_S) -> Resumed:
        return until(
            lambda: resumed(self.commits(), new, world),
            seconds,
            f"training again with {world} ranks ({self.said()})",
        )

    def said(self) -> str:
        """The end of what the processes wrote, for an error."""
        return " | ".join(
            path.read_text(errors="replace")[-120:].strip()
            for path in sorted(self.folder.glob("out-*.txt"))
        )
