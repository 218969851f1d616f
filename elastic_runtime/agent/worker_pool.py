"""The worker processes of one pod: starts them, receives their messages, and restarts them."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence

from elastic_runtime import contract, messages
from elastic_runtime.agent import hang_detection, metrics
from elastic_runtime.agent.coordination import WorkDone
from elastic_runtime.agent.pod_state import PodState
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.agent.worker_exit import (
    exit_code_after,
    how_it_ended,
    must_end_for_leaver,
    would_fail_again,
)
from elastic_runtime.agent.worker_process import WorkerProcess, spawn
from elastic_runtime.messages import AgentMessage, Failed, Record, WorkerMessage

log = logging.getLogger(__name__)
# For what a process sent before it died.
LAST_MESSAGES_S = 1.0


class WorkerPool:
    """`end(code)` is called when the pod is over. `clock`: of the workers, see hang_watch.py."""

    def __init__(
        self,
        settings: PodSettings,
        script: Sequence[str],
        end: Callable[[int], None],
    ) -> None:
        self.settings = settings
        self.script = script
        self.workers: list[WorkerProcess] = []
        # Of this agent: its votes count as long as it runs, whatever becomes of its workers.
        self.life = secrets.token_hex(6)
        self._starts = 0
        self.state = PodState()
        # The newest record that this pod received.
        self.record = Record()
        # Epoch and number of the generation that its ranks trained in last; epochs by number.
        self.trained = 0, 0
        self._epochs = dict[int, int]()
        # The workers are started again because another coordinator continued without them.
        self._is_overruled = False
        # The workers were killed because one left early, and others waited for it.
        self._ended_for_leaver = False
        # A rank in another pod waits for the step in flight.
        self.others_wait = False
        self.done = WorkDone()
        # The last report said that a rank waits for the step in flight.
        self.reported_waits = False
        self.all_deaths = 0
        self.hangs = 0
        # Set when the coordinator must be sent a report at once.
        self.changed = asyncio.Event()
        self._end = end
        # Of one step.
        self._samples = 0
        # Since the pod last got beyond the step at which a process died.
        self._deaths = 0
        self._died_at_step = 0
        # Why the script ended last, if an exception ended it.
        self._last_failure: Failed | None = None
        self.clock = hang_detection.PausableClock(
            time.monotonic, 4 * hang_detection.CHECK_INTERVAL_S
        )

    # --- processes --------------------------------------------------------------------------------

    async def run_workers(self) -> None:
        """Start the workers, and start all again when one dies, until the pod is over.

        After a restart the pod joins again; meanwhile the other pods train on.
        """
        code = None
        while code is None:
            await self._start()
            failed = await self._wait_for_exit()
            code = self._decide_after_exit(failed)
        self._end(code)

    async def _start(self) -> None:
        self.state = PodState(incarnation=self._next_incarnation(), leaving=self.state.leaving)
        self.trained = 0, 0
        self._ended_for_leaver = False
        if self._last_failure:
            failure = f"started its workers again: {self._last_failure.reason}"
            self.state.add_progress(messages.Progress(failure=failure))
        self.workers = []
        for local_rank in range(self.settings.ranks):
            # One by one: `kill` must find those that have started, also if the next one does not.
            worker = await spawn(self.script, self.settings, local_rank, self.clock)
            self.workers.append(worker)
        # If the last workers died, the others must know at once.
        self.changed.set()
        self._send_record()

    def _next_incarnation(self) -> str:
        self._starts += 1
        return f"{self.life}.{self._starts}"

    async def _wait_for_exit(self) -> int | None:
        """Until all workers have ended; if one fails, the others are killed.

        Returns the exit code of the one that failed. None if none did: each ended with success, or
        was killed because another one left early.
        """
        receivers = [asyncio.create_task(self._receive_all(worker)) for worker in self.workers]
        exits = {
            asyncio.create_task(self._wait_for_one(worker, receiver))
            for worker, receiver in zip(self.workers, receivers, strict=True)
        }
        streams = [stream for worker in self.workers for stream in worker.output]
        receivers += [asyncio.create_task(stream.copy()) for stream in streams]
        failed = None
        while exits and failed is None:
            done, exits = await asyncio.wait(exits, return_when=asyncio.FIRST_COMPLETED)
            failed = next((task.result() for task in done if task.result()), None)
        self.kill()
        await asyncio.gather(*exits, return_exceptions=True)
        # The socket may stay open: a process that the worker started in a session of its own
        # still holds it.
        await asyncio.wait(receivers, timeout=LAST_MESSAGES_S)
        for task in receivers:
            task.cancel()
        await asyncio.gather(*receivers, return_exceptions=True)
        for worker in self.workers:
            worker.close()
        return None if self._ended_for_leaver else failed

    async def _wait_for_one(self, worker: WorkerProcess, receiver: asyncio.Task[None]) -> int:
        """Its exit code. After 0 also for what it sent before, which may say that it finished."""
        code = await worker.process.wait()
        if code == 0:
            await asyncio.wait([receiver], timeout=LAST_MESSAGES_S)
            worker.left_early = not (worker.finished or worker.ended)
            self._end_for_leaver()
        return code

    def _end_for_leaver(self) -> None:
        """Kill the workers if one waits in vain for another, which left early."""
        if not self._ended_for_leaver and must_end_for_leaver(self.workers):
            self._ended_for_leaver = True
            self.kill()

    def _decide_after_exit(self, failed: int | None) -> int | None:
        """The exit code of the pod; None to start the workers again."""
        if self._is_overruled and not self.state.leaving:
            self._is_overruled = False
            return None
        is_final = False
        # A script without a session is no rank of the job. One whose session never began says so.
        left_early = self._ended_for_leaver or any(
            worker.left_early and (worker.ready or worker.failure) for worker in self.workers
        )
        if failed is not None:
            self._count_death(failed)
            is_final = self._is_final()
        elif left_early:
            self._last_failure = self._reported_failure()
            local_ranks = [rank for rank, worker in enumerate(self.workers) if worker.left_early]
            facts = {"local_ranks": local_ranks, "step": self.state.step}
            log.error("the script ended before its last step", extra=facts)
        else:
            self.state.finished = all(worker.finished for worker in self.workers)
        leaving = self.state.leaving
        code = exit_code_after(
            failed,
            left_early=left_early,
            leaving=leaving,
            is_final=is_final,
            deaths=self._deaths,
            max_restarts=self.settings.max_restarts,
        )
        if code:
            # For the last report: the workers that trained have ended.
            self.state = PodState(incarnation=self._next_incarnation(), leaving=leaving)
            reason = how_it_ended(failed, self._last_failure)
            self.state.add_progress(messages.Progress(failure=f"gave up: {reason}"))
        return code

    def _is_final(self) -> bool:
        """Whether the script, started again, would fail in the same way."""
        before = self._last_failure
        self._last_failure = self._reported_failure()
        return would_fail_again(self._last_failure, before, has_trained=self.done.steps > 0)

    def _reported_failure(self) -> Failed | None:
        return next((worker.failure for worker in self.workers if worker.failure), None)

    def _count_death(self, code: int) -> None:
        self._deaths += 1
        self.all_deaths += 1
        self._died_at_step = self.state.step
        facts = {"index": self.settings.index, "code": code, "deaths": self._deaths}
        log.warning("rank died", extra=facts)

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()

    # --- messages ---------------------------------------------------------------------------------

    def send(self, message: AgentMessage) -> None:
        """To every worker."""
        for worker in self.workers:
            worker.send(message)

    @property
    def _is_leading(self) -> bool:
        return self.record.members[:1] == (self.settings.index,)

    def set_record(self, record: Record) -> None:
        """A newer one, which may have a lower number than one of a coordinator that was lost."""
        self.state.newest_generation = max(self.state.newest_generation, self.record.generation)
        self.record = record
        if record.generation and not record.continues(*self.trained):
            log.warning("trains again as a member", extra={"trained": self.trained})
            self._is_overruled = True
            self.kill()
        self._send_record()
        if record.electors:
            # The coordinator waits until enough pods know it.
            self.changed.set()

    def _send_record(self) -> None:
        """To the workers, unless members before could elect a coordinator that does not know it."""
        if self.record.electors:
            return
        self._epochs[self.record.generation] = self.record.epoch
        self.send(messages.NewRecord(self.record, self.settings.index))

    async def _receive_all(self, worker: WorkerProcess) -> None:
        while True:
            try:
                if not (line := await worker.reader.readline()):
                    return
                message = messages.decode_worker_message(line)
            except ConnectionError:
                return
            except ValueError as error:
                # Malformed or too long. Without later messages it would pass for a frozen worker.
                log.warning("message of a worker ignored", extra={"reason": str(error)})
                continue
            self._receive(worker, message)

    def _receive(self, worker: WorkerProcess, message: WorkerMessage) -> None:
        if isinstance(message, messages.Pong):
            worker.receive_pong()
            return
        self.state.receive(worker, self.workers, message)
        self._end_for_leaver()
        match message:
            case messages.Formed():
                self._samples = message.samples
                self.trained = (self._epochs.get(message.generation, 0), message.generation)
            case messages.StepCommitted():
                # A pod that fails at the same step again and again makes no progress.
                if message.step > self._died_at_step:
                    self._deaths = 0
                self._last_failure = None
                if worker is self.workers[0]:
                    self.done = metrics.add_step(self.done, self._samples, message.seconds)
                if not (self._is_leading or self.reported_waits):
                    # The next heartbeat reports it.
                    return
            case messages.Parked() if self.state.parked and self.state.leaving:
                self._end(contract.EXIT_LEFT_ON_REQUEST)
            case messages.Arrived() | messages.Waiting() | messages.Evaluating():
                # The next heartbeat reports it: it matters only if others do not arrive.
                return
            case messages.Joining():
                # Not reported: it matters only in this pod.
                return
        self.changed.set()

    # --- for a person -----------------------------------------------------------------------------

    async def log_stacks(self) -> None:
        """Log the stacks of all workers of this pod."""
        all_stacks = await asyncio.gather(*(worker.stacks() for worker in self.workers))
        for rank, stacks in enumerate(all_stacks):
            log.info("stacks", extra={"rank": rank, "step": self.state.step, "stacks": stacks})

    def metrics(self) -> str:
        answers = [worker.pulse().slowest_answer_s for worker in self.workers]
        return metrics.format_pod(
            self.state.step,
            self.all_deaths,
            self.hangs,
            slowest_answer_s=max(answers, default=0.0),
            own_s=self.state.own_s,
        )
