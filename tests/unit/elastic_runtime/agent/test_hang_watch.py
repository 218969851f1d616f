"""Which workers of a pod are pinged and when again, and what happens to one that hangs."""

from typing import cast

import pytest

from elastic_runtime.agent.hang_detection import (
    CHECK_INTERVAL_S,
    MIN_ANSWERS,
    MIN_STEPS,
    Patience,
    Pulse,
)
from elastic_runtime.agent.hang_watch import CHECK_MARGIN_S, HangWatch
from elastic_runtime.agent.worker_process import WorkerProcess
from tests.fakes.agents import agent

SILENT = Pulse(steps=MIN_STEPS, answers=MIN_ANSWERS, unanswered_s=60.0)
# Nobody waits for it, so it has this long to answer.
LATE = Pulse(unanswered_s=Patience().early_timeout_s - 0.01)


class FakeWorker:
    def __init__(self, pulse: Pulse, *, exit_code: int | None, killed: bool) -> None:
        self.exit_code = exit_code
        self.killed = killed
        self.pings = 0
        self.kills = 0
        self._pulse = pulse

    def ping(self) -> None:
        self.pings += 1

    def pulse(self) -> Pulse:
        return self._pulse

    def kill(self) -> None:
        self.kills += 1


@pytest.mark.parametrize(
    ("pulse", "exit_code", "killed", "pings", "hangs", "next_check_s"),
    [
        pytest.param(SILENT, None, False, 1, 1, CHECK_MARGIN_S, id="it does not answer"),
        pytest.param(Pulse(), None, False, 1, 0, CHECK_INTERVAL_S, id="it answers"),
        pytest.param(LATE, None, False, 1, 0, 0.01 + CHECK_MARGIN_S, id="its timeout is near"),
        pytest.param(SILENT, 0, False, 0, 0, CHECK_INTERVAL_S, id="it has ended"),
        pytest.param(SILENT, None, True, 0, 0, CHECK_INTERVAL_S, id="it was killed before"),
    ],
)
async def test_a_worker_is_pinged_and_one_that_hangs_is_logged_and_killed(
    pulse: Pulse, exit_code: int | None, killed: bool, pings: int, hangs: int, next_check_s: float
) -> None:
    worker = FakeWorker(pulse, exit_code=exit_code, killed=killed)
    pool = agent(1).pool
    pool.workers = [cast(WorkerProcess, worker)]
    logged = list[WorkerProcess]()

    async def log_hang(worker: WorkerProcess) -> None:
        logged.append(worker)

    assert await HangWatch(pool, log_hang).check() == pytest.approx(next_check_s)
    assert (worker.pings, worker.kills, len(logged), pool.hangs) == (pings, hangs, hangs, hangs)
