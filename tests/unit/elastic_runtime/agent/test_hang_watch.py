"""Which workers of a pod are pinged, and what happens to one that hangs."""

from types import SimpleNamespace
from typing import cast

import pytest

from elastic_runtime.agent.hang_detection import MIN_ANSWERS, MIN_STEPS, Pulse
from elastic_runtime.agent.hang_watch import HangWatch
from elastic_runtime.agent.worker_process import WorkerProcess
from tests.fakes.agents import agent

SILENT = Pulse(steps=MIN_STEPS, answers=MIN_ANSWERS, unanswered_s=60.0)


class FakeWorker:
    def __init__(self, pulse: Pulse, returncode: int | None = None) -> None:
        self.process = SimpleNamespace(returncode=returncode)
        self.killed = False
        self.pings = 0
        self._pulse = pulse

    def ping(self) -> None:
        self.pings += 1

    def pulse(self) -> Pulse:
        return self._pulse

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(
    ("worker", "hangs"),
    [
        pytest.param(FakeWorker(SILENT), True, id="it does not answer"),
        pytest.param(FakeWorker(Pulse()), False, id="it answers"),
        pytest.param(FakeWorker(SILENT, returncode=0), False, id="it has ended"),
    ],
)
async def test_a_worker_that_hangs_is_logged_and_killed(worker: FakeWorker, hangs: bool) -> None:
    pool = agent(1).pool
    pool.workers = [cast(WorkerProcess, worker)]
    logged = list[WorkerProcess]()

    async def log_hang(worker: WorkerProcess) -> None:
        logged.append(worker)

    await HangWatch(pool, log_hang).check()
    assert (worker.killed, len(logged), pool.hangs) == (hangs, hangs, hangs)
