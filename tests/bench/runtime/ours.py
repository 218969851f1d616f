"""Our side: `python -m elastic_runtime --local N`, asked through its control port as its own
command does."""

import asyncio
import signal
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent import control_server
from elastic_runtime.contract import SizeRequest, Status
from tests.bench.runtime.commits import Commit, Resumed, lines, of_journal
from tests.bench.runtime.processes import WORKERS, Job, children, free_port, kill, until


class Ours(Job):
    """`pods` pods of one rank each that run one of our workers."""

    def __init__(
        self,
        pods: int,
        worker: str = "with_elastic_runtime.py",
        *args: str,
        paths: Sequence[Path] = (),
        **more: str,
    ) -> None:
        super().__init__(*paths, **more)
        self.port = free_port()
        self.log = self.folder / "log"
        self.directory = self.folder / ".elastic_runtime"
        self.pods = pods
        self.words = [str(WORKERS / worker), *args]

    def begin(self) -> None:
        of = [
            "--local",
            str(self.pods),
            "--port",
            str(self.port),
            "--directory",
            str(self.directory),
        ]
        self.start("-m", "elastic_runtime", *of, *self.words)

    def commits(self) -> list[Commit]:
        return of_journal(self.log)

    def call(self, method: str, path: str, body: bytes = b"") -> Status:
        key = (self.directory / "key").read_bytes().strip()
        return contract.decode_status(
            asyncio.run(
                control_server.call(
                    "127.0.0.1", self.port, key, "local", method, path, body, timeout_s=30
                )
            )
        )

    def resize(self, size: int) -> None:
        self.call("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(size)))

    def status(self) -> Status | None:
        try:
            return self.call("GET", contract.STATUS_PATH)
        except (OSError, ValueError, control_server.Refused):
            # pod 0 is not up
            return None

    def rank_of(self, pod: int) -> int:
        """The process of a pod's rank."""
        return children(int((self.directory / "pids").read_text().split()[pod]))[0]

    def generation(self) -> int:
        return max((c.era for c in self.commits()), default=0)

    def resized(self, size: int) -> tuple[float, Resumed]:
        """When it was asked, and how it went on; returns some steps later."""
        era = self.generation()
        asked = time.time()
        self.resize(size)
        return asked, self.back(lambda c: c.era > era, size)

    def struck(
        self, pod: int, sign: signal.Signals, world: int, seconds: float
    ) -> tuple[float, Resumed]:
        """A signal to a pod's rank: when, and how `world` ranks went on."""
        era = self.generation()
        victim = self.rank_of(pod)
        at = time.time()
        kill(victim, sign)
        return at, until(
            lambda: self._first(era, world), seconds, f"the next step of {world} ranks"
        )

    def settled(self, world: int, seconds: float) -> None:
        """Returns when the newest generation is of `world` ranks and has trained for so long."""

        def found() -> bool | None:
            commits = self.commits()
            times = [c.time for c in commits if c.era == self.generation() and c.world == world]
            return True if times and max(times) - min(times) > seconds else None

        until(found, 60, f"{seconds:g} s of {world} ranks")

    def _first(self, era: int, world: int) -> Resumed | None:
        """The first commits after `era`: whoever was lost may be back a generation later."""
        commits = self.commits()
        new = [c for c in commits if c.era > era and c.world == world]
        if len({c.who for c in new}) < world:
            return None
        first: dict[str, Commit] = {}
        for one in sorted(new, key=lambda c: c.time):
            first.setdefault(one.who, one)
        old = [c for c in commits if c.era <= era]
        redone = max(c.step for c in old) - min(c.step for c in first.values()) + 1
        return Resumed(
            max(c.time for c in old),
            max(c.time for c in first.values()),
            self.step_s(),
            max(0, redone),
        )

    def step_s(self, last: int = 12) -> float:
        """Median seconds of the last steps of whoever committed the newest."""
        commits = self.commits()
        who = max(commits, key=lambda c: c.step).who
        times = sorted(c.time for c in commits if c.who == who)[-last:]
        gaps = sorted(b - a for a, b in pairwise(times))
        return gaps[len(gaps) // 2]

    def own_pauses_s(self, era: int) -> list[float]:
        """By their own clock, what pods 0 and 1 paused into the generations after `era`: last
        commit until the next step may begin."""
        found = (
            line
            for pod in (0, 1)
            for line in lines(self.log, f"steps-{pod}-*.jsonl")
            if line["generation"] > era
        )
        return [line["pause_ms"] / 1000 for line in found if "pause_ms" in line]
