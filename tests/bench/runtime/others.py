"""One job of each peer, what is done to it, and how it resumed."""

import os
import signal
import time
from itertools import pairwise

from tests.bench.runtime.commits import Commit, Resumed
from tests.bench.runtime.processes import WORKERS, Job, children, free_port, kill, until


class Torchrun(Job):
    """One agent for each worker, c10d rendezvous, tuned.

    The last call is 1 s, and the workers have their own store: otherwise torchrun never recovers
    with gloo.
    """

    def __init__(self, agents: int) -> None:
        super().__init__(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
        self.agents, self.port = agents, free_port()
        self.script = [str(WORKERS / "with_torchrun.py")]

    def begin(self) -> None:
        for _ in range(self.agents):
            self.start_agent()
        self.steady(self.agents)

    def start_agent(self) -> None:
        host = int(not self.processes)
        self.start(
            *(
                "-m",
                "torch.distributed.run",
                "--nnodes",
                "1:4",
                "--nproc-per-node",
                "1",
                "--rdzv-backend",
                "c10d",
                "--rdzv-id",
                "bench",
            ),
            *(
                "--rdzv-endpoint",
                f"127.0.0.1:{self.port}",
                "--rdzv-conf",
                f"is_host={host},last_call_timeout=1",
            ),
            *(
                "--local-addr",
                "127.0.0.1",
                "--max-restarts",
                "10",
                *self.script,
            ),
        )

    def mid_period(self) -> None:
        """Returns five steps after a checkpoint; there is one every ten steps."""
        until(
            lambda: True if max(c.step for c in self.commits()) % 10 == 5 else None,
            60,
            "the middle between two checkpoints",
        )

    def _changed(self, world: int, began: float) -> Resumed:
        known = {c.era for c in self.commits() if c.time < began}
        return self.back(lambda c: c.era not in known, world)

    def shrunk(self) -> tuple[float, Resumed]:
        self.mid_period()
        began = time.time()
        for agent in self.processes[2:]:
            agent.send_signal(signal.SIGTERM)
        return began, self._changed(2, began)

    def killed(self) -> tuple[float, Resumed]:
        """A worker dies and its agent lives: all workers restart at the same size."""
        self.mid_period()
        began = time.time()
        kill(children(self.processes[-1].pid)[0])
        return began, self._changed(len(self.processes), began)

    def grown(self) -> tuple[float, Resumed]:
        self.mid_period()
        began = time.time()
        self.start_agent()
        self.start_agent()
        return began, self._changed(4, began)


class Torchft(Job):
    """Four replica groups of one process each and a lighthouse with its defaults.

    torchft has no orderly leave: a shrink is a kill.
    """

    GROUPS = 4

    def begin(self) -> None:
        self.start(
            "-c",
            "import time; from torchft.coordination import LighthouseServer as L; from pathlib "
            "import Path; "
            "l = L(bind='127.0.0.1:0', min_replicas=1, join_timeout_ms=60000, quorum_tick_ms=100, "
            "heartbeat_timeout_ms=5000); "
            "Path('address.draft').write_text(l.address()); "
            "Path('address.draft').rename('address'); time.sleep(10**6)",
        )
        address = until(self._address, 60, f"torchft's lighthouse ({self.output()})")
        self.env["BENCH_LIGHTHOUSE"] = "http://127.0.0.1:" + address.rpartition(":")[2]
        self.groups = [self._group(number) for number in range(self.GROUPS)]
        self.steady(self.GROUPS, 10)

    def _address(self) -> str | None:
        path = self.folder / "address"
        return path.read_text() if path.exists() else None

    def _group(self, number: int) -> int:
        return self.start(str(WORKERS / "with_torchft.py"), BENCH_GROUP=str(number)).pid

    def alive(self) -> int:
        return len(self.groups)

    def killed(self, count: int) -> tuple[float, Resumed]:
        """The last `count` groups die at the same time."""
        began = time.time()
        for pid in self.groups[-count:]:
            kill(pid)
        self.groups = self.groups[:-count]
        left = self.alive()
        return began, self.back(lambda c: c.time > began and c.world == left, left)

    def grown(self, count: int) -> tuple[float, float, float]:
        """The killed groups come back.

        Returns the time of the start, the longest gap of a survivor minus one step, and the time
        of the newcomers' first commit.
        """
        step_s = self._step_s()
        began = time.time()
        new = [self._group(number) for number in range(self.GROUPS - count, self.GROUPS)]
        self.groups += new

        def joined() -> list[Commit] | None:
            commits = [c for c in self.commits() if c.era in new and c.world == self.GROUPS]
            return commits if {c.era for c in commits} == set(new) else None

        until(joined, 120, "torchft's group is back")
        self.steady(self.GROUPS, 4, after=time.time())
        times = sorted(c.time for c in self.commits() if c.rank == "0" and c.time > began - step_s)
        # Later commits come first, so that the first one of each newcomer is left.
        commits = sorted(self.commits(), key=lambda c: c.time, reverse=True)
        first = {c.era: c.time for c in commits if c.era in new}
        last_newcomer = max(first.values())
        return began, max(0.0, max(b - a for a, b in pairwise(times)) - step_s), last_newcomer

    def _step_s(self) -> float:
        times = sorted(c.time for c in self.commits() if c.rank == "0")[-6:]
        return sorted(b - a for a, b in pairwise(times))[2]


class Nvrx(Job):
    """Four ranks with NVRx's in-process restart.

    The group's timeout of 2 s bounds its recovery on gloo.
    """

    def begin(self) -> None:
        port = str(free_port(3))
        self.env = self.env | {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank in range(4):
            self.start(str(WORKERS / "with_nvrx.py"), RANK=str(rank), LOCAL_RANK=str(rank))
        self.steady(4, 11)

    def killed(self) -> tuple[float, Resumed]:
        began = time.time()
        os.kill(self.processes[2].pid, signal.SIGKILL)
        return began, self.back(lambda c: c.era > 0, 3)
