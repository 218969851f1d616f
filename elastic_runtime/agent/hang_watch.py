"""Pings the workers of a pod and kills the ones that hang, as if they had died."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from elastic_runtime.agent import hang_detection
from elastic_runtime.agent.hang_detection import CHECK_INTERVAL_S
from elastic_runtime.agent.worker_pool import WorkerPool
from elastic_runtime.agent.worker_process import WorkerProcess

log = logging.getLogger(__name__)
# A timeout is checked so long after it.
CHECK_MARGIN_S = 0.005


class HangWatch:
    """`log_hang(worker)` is called before a worker is killed."""

    def __init__(
        self, pool: WorkerPool, log_hang: Callable[[WorkerProcess], Awaitable[None]]
    ) -> None:
        self._pool = pool
        self._log_hang = log_hang

    async def run(self) -> None:
        """Until cancelled."""
        sleep_s = CHECK_INTERVAL_S
        while True:
            await asyncio.sleep(sleep_s)
            self._pool.clock.tick()
            sleep_s = await self.check()

    async def check(self) -> float:
        """Ping every worker, and kill one that hangs. Returns the seconds until the next check."""
        pool = self._pool
        sleep_s = CHECK_INTERVAL_S
        for worker in pool.workers:
            if worker.killed or worker.exit_code is not None:
                continue
            worker.ping()
            # One picture of the worker for both questions.
            circumstances = (
                worker.pulse(),
                pool.settings.patience,
                pool.others_wait or pool.state.waits,
            )
            timeout_s = hang_detection.liveness_timeout_s(*circumstances)
            left_s = timeout_s - circumstances[0].unanswered_s
            sleep_s = min(sleep_s, max(left_s, 0.0) + CHECK_MARGIN_S)
            if reason := hang_detection.hang_reason(*circumstances):
                await self._kill_hung(worker, reason)
                break
        return sleep_s

    async def _kill_hung(self, worker: WorkerProcess, reason: str) -> None:
        pool = self._pool
        rank = pool.workers.index(worker)
        log.error("rank hangs", extra={"rank": rank, "why": reason, "step": pool.state.step})
        await self._log_hang(worker)
        pool.hangs += 1
        worker.kill()
