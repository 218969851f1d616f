"""The same script as processes of this machine: `--restart` beside torchrun's elastic restart.

Four ranks train; two of them are to leave, or one is killed and comes back. Nobody takes what they
leave. torchrun has one agent for each rank, a c10d rendezvous, and its usual periodic checkpoints:
a handler on SIGTERM would wait in a collective for the ranks that have left. Those that leave get
SIGTERM, as pods do.
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.bench.levels.figures import Cost, Turn, cost_of_shrink, is_between_saves, turn
from tests.bench.levels.jobs import CLAIM, PODS, WORKERS
from tests.bench.levels.workers.tiny import ON_SIGNAL, SAVE_EVERY
from tests.bench.runtime.commits import Commit, read_journal
from tests.bench.runtime.others import Torchrun
from tests.bench.runtime.ours import Ours
from tests.bench.runtime.processes import EVENT_S, START_S, TooLong, children, kill, until
from tests.paths import TREE

SCRIPT = str(TREE / WORKERS / "plain.py")


class Restarted(Ours):
    def __init__(self) -> None:
        super().__init__(PODS)
        self.words = ["--restart", "--", SCRIPT, str(self.log), ON_SIGNAL]

    def begin(self) -> None:
        self.log.mkdir()
        super().begin()

    def ask(self) -> None:
        """Two of the four ranks are to leave."""
        self.resize(PODS - CLAIM)

    def has_left(self) -> bool:
        status = self.status()
        return status is not None and status.ceded(PODS - CLAIM)

    def lose(self) -> None:
        """A script is killed; its pod stays."""
        kill(children(self.rank_of(PODS - 1))[0])


class ElasticTorchrun(Torchrun):
    def __init__(self) -> None:
        super().__init__(PODS)
        self.script = [SCRIPT, str(self.folder)]

    def begin(self) -> None:
        for _ in range(self.agents):
            self.start_agent()

    def commits(self) -> list[Commit]:
        return read_journal(self.folder)

    def ask(self) -> None:
        """Two of the four agents are to end, with their ranks."""
        for agent in self.processes[-CLAIM:]:
            agent.send_signal(signal.SIGTERM)

    def has_left(self) -> bool:
        return all(agent.poll() is not None for agent in self.processes[-CLAIM:])

    def lose(self) -> None:
        """A worker is killed; its agent stays."""
        kill(children(self.processes[-1].pid)[0])


Job = Restarted | ElasticTorchrun


def shrink_cost(job: Job) -> Cost:
    """Two ranks leave."""
    asked = _between_saves(job)
    job.ask()
    until(lambda: job.has_left() or None, EVENT_S, "two ranks to have left")
    left = time.time()
    shrink = _turn(job, asked, PODS - CLAIM)
    return cost_of_shrink(shrink, asked, left, CLAIM, PODS - CLAIM)


def loss_cost(job: Job) -> Cost:
    """A rank is killed; all of them train again."""
    killed = _between_saves(job)
    job.lose()
    return cost_of_shrink(_turn(job, killed, PODS), killed, killed, 0, PODS)


def _between_saves(job: Job) -> float:
    """The time, once it trains half-way between two."""
    until(
        lambda: is_between_saves(job.commits(), PODS, SAVE_EVERY) or None,
        START_S,
        f"training between two saves ({job.output()})",
    )
    return time.time()


def _turn(job: Job, asked: float, size: int) -> Turn:
    def has_turned() -> Turn | None:
        return turn(job.commits(), asked, size)

    return until(has_turned, EVENT_S, f"training with {size} ranks ({job.output()})")


@dataclass(frozen=True)
class Side:
    label: str
    make: Callable[[], Job]
    cost: Callable[[Job], Cost]


SIDES = {
    "L1-processes": Side("L1, as processes", Restarted, shrink_cost),
    "torchrun": Side("torchrun's elastic restart, as processes", ElasticTorchrun, shrink_cost),
    "L1-killed": Side("L1, a killed rank, as processes", Restarted, loss_cost),
    "torchrun-killed": Side("torchrun, a killed rank, as processes", ElasticTorchrun, loss_cost),
}
"""By name."""


def measure(names: list[str], runs: int) -> dict[str, list[Cost] | str]:
    """By name, the costs of each run, in turns; or why there is none."""
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    reasons: dict[str, str] = {}
    for _ in range(runs):
        for name in names:
            try:
                with SIDES[name].make() as job:
                    costs[name].append(SIDES[name].cost(job))
                    print(f"{name}: {costs[name][-1]}", flush=True)
            except TooLong as error:
                reasons[name] = f"not measured: {error}"
                print(f"{name}: {error}", flush=True)
    return {name: costs[name] or reasons.get(name, "not measured") for name in names}
