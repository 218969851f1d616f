"""The agent, PID 1 of a training pod: its worker processes live on while the job changes size."""

import asyncio
import logging
import os
import resource
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from elastic_runtime import messages
from elastic_runtime.agent import control_server, external_command, peers, succession
from elastic_runtime.agent.coordinator_client import CoordinatorClient
from elastic_runtime.agent.hang_detection import PausableClock
from elastic_runtime.agent.hang_watch import HangWatch
from elastic_runtime.agent.leadership import DECISION_INTERVAL_S, Leadership
from elastic_runtime.agent.native_stacks import py_spy_dump
from elastic_runtime.agent.request_router import RequestRouter
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.agent.worker_pool import WorkerPool
from elastic_runtime.agent.worker_process import WorkerProcess
from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST
from elastic_runtime.json_logging import POD_ENDS

log = logging.getLogger(__name__)
# Of the grace period, for the last report and the end of the process.
GRACE_RESERVE_S = 2.0
LAST_REPORT_S = 2.0
# A coordinator that is terminated stays so long: the others may be terminated next, and have to
# agree on a last save.
LINGER_S = 10.0
# Between two looks for the launcher of a local job.
LAUNCHER_INTERVAL_S = 0.5
# Of an agent to the coordinator, and files and connections for all else, also those that were
# accepted but not counted yet.
CONNECTIONS_PER_POD = 2
OWN_FILES = 2 * control_server.BACKLOG


def allow_connections(pods: int) -> int:
    """Let this process hold those of so many pods, as far as its hard limit allows.

    Returns how many more it may hold: of pods that connect for the first time, and of strangers.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    known = OWN_FILES + CONNECTIONS_PER_POD * pods
    new = max(CONNECTIONS_PER_POD * pods, control_server.BACKLOG)
    needed = known + min(new, control_server.MAX_UNSIGNED)
    if resource.RLIM_INFINITY != soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return control_server.MAX_UNSIGNED
    return min(max(soft - known, control_server.BACKLOG), control_server.MAX_UNSIGNED)


class Agent:
    def __init__(self, settings: PodSettings, script: Sequence[str]) -> None:
        self.settings = settings
        self.code = 0
        self.pool = WorkerPool(settings, script, self.end)
        # After this process itself was frozen, no coordinator counts as lost.
        self.clock = PausableClock(time.monotonic, 10 * DECISION_INTERVAL_S)
        self.client = CoordinatorClient(settings, self.pool, self.end, self.clock)
        self.leadership = Leadership(settings, self.pool, self.client, self.clock)
        self.router = RequestRouter(self.leadership, self.end_if_late)
        self.over = asyncio.Event()
        # Until when a terminating pod may stay, by the monotonic clock.
        self._leave_by = 0.0

    async def run(self) -> int:
        """Until the job has finished, this pod has left, or the script fails for good.

        Returns the exit code.
        """
        # Any agent may have to coordinate.
        max_unsigned = allow_connections(self.settings.largest)
        server = control_server.Server(
            self.settings.keys, self.settings.job_uid, self.router.serve, self.metrics, max_unsigned
        )
        port = await server.start(self.settings.port, self.settings.host)
        self.client.port = port
        peers.publish_port(self.settings, port)
        log.info("pod up", extra={"index": self.settings.index, "port": port})
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: asyncio.ensure_future(self._leave()))
        tasks = self._start_tasks()
        over = asyncio.create_task(self.over.wait())
        try:
            done, _ = await asyncio.wait({over, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {over}:
                # Only a defect ends a task: raise it.
                task.result()
            await self._send_last_report()
            self._log_end()
        finally:
            self.pool.kill()
            for task in [over, *tasks]:
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)
            self.client.close()
            await server.stop()
        return self.code

    def _start_tasks(self) -> list[asyncio.Task[None]]:
        watch = HangWatch(self.pool, self._log_hang)
        loops = [self.leadership.run(), self.pool.run_workers(), watch.run()]
        if self.settings.launcher:
            loops.append(self._leave_with_launcher())
        return [asyncio.create_task(work) for work in loops]

    def end(self, code: int) -> None:
        """The first call decides the exit code."""
        if not self.over.is_set():
            self.code = code
            self.over.set()

    def end_if_late(self) -> bool:
        """End with success, because pod 0 has, if this pod came too late to take part. A command
        under --signal is each pod's own work. Returns whether the pod ends."""
        known, limits = self.leadership.knowledge(), self.client.limits
        # It has formed no generation since its workers started.
        is_idle = self.pool.state.generation == 0
        has_own_work = external_command.is_worker(self.pool.script)
        is_late = is_idle and succession.is_left_out(known, self.clock(), limits)
        if has_own_work or not is_late:
            return False
        log.info("the job has finished without this pod")
        self.pool.state.finished = True
        self.end(0)
        return True

    def metrics(self) -> str:
        coordinator = self.client.coordinator
        return (coordinator.metrics() if coordinator else "") + self.pool.metrics()

    async def _log_hang(self, worker: WorkerProcess) -> None:
        """Log the stacks of this pod's processes and, by the coordinator, of all other pods'."""
        # Not awaited: others wait until the worker that hangs is killed.
        self.client.request_stacks()
        await self.pool.log_stacks()
        if stacks := await py_spy_dump(worker.process.pid):
            log.info("py-spy", extra={"stacks": stacks})

    async def _leave_with_launcher(self) -> None:
        """A local job ends with the process that started it, also if that one was killed."""
        # No event tells of the end of a parent, which may have ended before this process was up.
        while os.getppid() == self.settings.launcher:  # noqa: ASYNC110
            await asyncio.sleep(LAUNCHER_INTERVAL_S)
        log.warning("the process that started this local job has ended")
        await self._leave()
        await self.over.wait()

    async def _leave(self) -> None:
        """SIGTERM: leave at the end of the step, or when the grace period is over."""
        state = self.pool.state
        if state.leaving:
            return
        log.info("terminating", extra={"parked": state.parked})
        state.leaving = True
        stay_s = max(1.0, self.settings.grace_s - GRACE_RESERVE_S)
        self._leave_by = time.monotonic() + stay_s
        if state.parked or not state.ready:
            self.end(EXIT_LEFT_ON_REQUEST)
            return
        self.pool.changed.set()
        self.pool.send(messages.Leave())
        await asyncio.sleep(self._leave_by - time.monotonic())
        log.warning("grace period is over", extra={"step": self.pool.state.step})
        self.end(EXIT_LEFT_ON_REQUEST)

    def _log_end(self) -> None:
        """For the terminal of a local job: then no pod answers any more."""
        coordinator = self.client.coordinator
        durable = coordinator.progress.durable_step if coordinator else 0
        own = self.pool.state.progress.durable_step or 0
        facts = {
            "index": self.settings.index,
            "step": self.pool.state.step,
            "durable_step": max(durable, own, self.client.kept.durable_step),
        }
        log.info(POD_ENDS, extra=facts)

    async def _send_last_report(self) -> None:
        """Report the end. A coordinator waits until the others have reported theirs.

        One that the requested size leaves out does not: its quota is needed, the others elect.
        """
        coordinator = self.client.coordinator
        is_released = bool(coordinator and coordinator.releases(self.settings.index))
        linger_s = 0.0
        if self.pool.state.leaving and not is_released:
            linger_s = min(self._leave_by - time.monotonic(), LINGER_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(LAST_REPORT_S, linger_s)):
                await self.client.send_report()
                if coordinator and not is_released:
                    await coordinator.wait_for_last_reports(self.settings.index)
