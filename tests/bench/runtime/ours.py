"""Our job: `python -m elastic_runtime --local N`, controlled through its control port."""

import asyncio
import signal
import time
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path

from elastic_runtime import contract
from elastic_runtime.agent import control_client
from elastic_runtime.agent.signing_keys import KeyFile
from elastic_runtime.contract import SizeRequest, Status
from tests.bench.runtime.commits import Commit, Resumed, lines, read_journal
from tests.bench.runtime.processes import WORKERS, Job, children, free_port, kill, until


class Ours(Job):
    """`pods` pods of one rank each; all run the same worker script."""

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
        options = [
            "--local",
            str(self.pods),
            "--port",
            str(self.port),
            "--directory",
            str(self.directory),
        ]
        self.start("-m", "elastic_runtime", *options, *self.words)

    def commits(self) -> list[Commit]:
        return read_journal(self.log)

    def call(self, method: str, path: str, body: bytes = b"") -> Status:
        keys = KeyFile(self.directory / "key")
        return contract.decode_status(
            asyncio.run(
                control_client.call(
                    "127.0.0.1", self.port, keys, "local", method, path, body, timeout_s=30
                )
            )
        )

    def resize(self, size: int) -> None:
        self.call("PUT", contract.SIZE_PATH, contract.encode(SizeRequest(size)))

    def status(self) -> Status | None:
        try:
            return self.call("GET", contract.STATUS_PATH)
        except (OSError, ValueError, control_client.Refused):
            # Pod 0 does not run yet.
            return None

    def rank_of(self, pod: int) -> int:
        """The process id of a pod's rank."""
        return children(int((self.directory / "pids").read_text().split()[pod]))[0]

    def generation(self) -> int:
        return max((c.era for c in self.commits()), default=0)

    def resized(self, size: int) -> tuple[float, Resumed]:
        """The time of the request, and how the job resumed; returns some steps later."""
        era = self.generation()
        asked = time.time()
        self.resize(size)
        return asked, self.back(lambda c: c.era > era, size)

    def signal_rank(
        self, pod: int, sign: signal.Signals, world: int, seconds: float
    ) -> tuple[float, Resumed]:
        """Sends a signal to a pod's rank: the time, and how `world` ranks resumed."""
        era = self.generation()
        victim = self.rank_of(pod)
        began = time.time()
        kill(victim, sign)
        return began, until(
            lambda: self._first(era, world), seconds, f"the next step of {world} ranks"
        )

    def settled(self, world: int, seconds: float) -> None:
        """Returns when the newest generation has `world` ranks and has trained for `seconds`."""

        def has_settled() -> bool | None:
            commits = self.commits()
            times = [c.time for c in commits if c.era == self.generation() and c.world == world]
            return True if times and max(times) - min(times) > seconds else None

        until(has_settled, 60, f"{seconds:g} s of {world} ranks")

    def _first(self, era: int, world: int) -> Resumed | None:
        """The first commits after `era`; the lost rank may come back one generation later."""
        commits = self.commits()
        new = [c for c in commits if c.era > era and c.world == world]
        if len({c.rank for c in new}) < world:
            return None
        first: dict[str, Commit] = {}
        for commit in sorted(new, key=lambda c: c.time):
            first.setdefault(commit.rank, commit)
        old = [c for c in commits if c.era <= era]
        redone = max(c.step for c in old) - min(c.step for c in first.values()) + 1
        return Resumed(
            max(c.time for c in old),
            max(c.time for c in first.values()),
            self.step_s(),
            max(0, redone),
        )

    def step_s(self, last: int = 12) -> float:
        """Median duration of the last steps of the rank that committed the newest step."""
        commits = self.commits()
        rank = max(commits, key=lambda c: c.step).rank
        times = sorted(c.time for c in commits if c.rank == rank)[-last:]
        gaps = sorted(b - a for a, b in pairwise(times))
        return gaps[len(gaps) // 2]

    def own_pauses_s(self, era: int) -> list[float]:
        """Pauses of pods 0 and 1 in the generations after `era`, by their own clock.

        A pause lasts from the last commit until the next step may begin.
        """
        pods = [lines(self.log, f"steps-{pod}-*.jsonl") for pod in (0, 1)]
        later = (line for line in chain(*pods) if line["generation"] > era)
        return [line["pause_ms"] / 1000 for line in later if "pause_ms" in line]
