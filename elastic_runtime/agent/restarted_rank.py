"""Runs one rank of a script that was written for torchrun, and restarts it at each new size.

    python -m elastic_runtime --restart -- train.py

All ranks of a generation are told at once: each gets the signal, saves and ends, and is started
again with the environment of the next generation. When a member is lost, or a script fails, all are
killed and started again; they load their newest checkpoint. The pods and their agents stay. The job
has finished when the scripts of all ranks have ended in one generation. A script that hangs, as far
as that is known, is killed, which is a failure as any other.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence

from elastic_runtime import contract, messages
from elastic_runtime.agent.command_worker import CommandWorker, exit_code, signal_named
from elastic_runtime.agent.rank_environment import (
    accumulation_environment,
    is_loss,
    rank_environment,
    with_defaults,
    without,
)
from elastic_runtime.agent.script_watch import WATCH_INTERVAL_S, ScriptWatch, patience_from
from elastic_runtime.agent.settings import (
    AGENT_FD_ENV,
    LOCAL_RANK_ENV,
    MAX_RESTARTS,
    PROGRESS_FILE_ENV,
    STOP_SIGNAL_ENV,
)
from elastic_runtime.agent.worker_process import NCCL_DEFAULTS, STACKS_TIMEOUT_S
from elastic_runtime.messages import Record

log = logging.getLogger(__name__)
# A script that has run for so long has made progress: earlier failures no longer count, and the
# status does not name them any more.
GOOD_RUN_S = 300.0
# The exit code of a job whose settings are wrong, as of a command line.
USAGE_ERROR = 2


def script(signal_name: str, command: Sequence[str]) -> list[str]:
    """The worker process that an agent starts. Raises ValueError for an unknown signal."""
    name = signal_named(signal_name).name
    return ["-m", "elastic_runtime.agent.restarted_rank", name, *command]


class RestartedRank(CommandWorker):
    """`grace_s`: how long the script may take to save and end; then it is killed."""

    def __init__(
        self,
        stop_signal: signal.Signals,
        command: Sequence[str],
        env: Mapping[str, str],
        local_rank: int,
        ranks: int,
        grace_s: float,
        watch: ScriptWatch,
    ) -> None:
        super().__init__()
        self.stop_signal = stop_signal
        self.command = command
        self.env = env
        self.local_rank = local_rank
        self.ranks = ranks
        self.grace_s = grace_s
        self.watch = watch
        # Of the generation that the script runs in, or that this rank is parked for.
        self._settled = Record()
        # The script that runs was asked to save and end; it was killed after a loss.
        self._asked = False
        self._killed = False
        # Its grace period was over, and it was killed.
        self._was_late = False
        # Why it hangs, if it does.
        self._hang = ""
        # The status may name a failure.
        self._complains = False
        self._opened: tuple[int, int] = (0, 0)
        self._starts = 0
        self._started_at = 0.0
        # Since the last good run. `_failure`: how the script ended last, if it failed.
        self._failures = 0
        self._failure: int | None = None

    async def run(self, descriptor: int) -> int:
        watching = asyncio.create_task(self._watch_script())
        try:
            return await super().run(descriptor)
        finally:
            watching.cancel()

    async def _watch_script(self) -> None:
        """Report its steps, and kill it if it hangs, until cancelled."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            if self.process is None or not self.runs:
                continue
            self._report_steps(self.process)
            if self._complains and self._has_run_well():
                self._complains = False
                self.send(messages.Progress(failure="", save_message=""))
            if self._asked or self._killed or self._hang:
                continue
            if reason := self.watch.hang_reason():
                self._hang = reason
                await self._kill_hung(self.process)

    def _report_steps(self, process: asyncio.subprocess.Process) -> None:
        for step in self.watch.look(process.pid):
            self.send(step)

    def _has_run_well(self) -> bool:
        return time.monotonic() - self._started_at > GOOD_RUN_S

    async def _kill_hung(self, process: asyncio.subprocess.Process) -> None:
        """Kill it, after it has written its stacks if it can."""
        print(f"elastic_runtime: the script hangs: {self._hang}", file=sys.stderr)
        if self.watch.has_reported:
            process.send_signal(signal.SIGRTMIN)
            await asyncio.sleep(STACKS_TIMEOUT_S)
        if process.returncode is None:
            process.kill()

    async def react(self) -> int | None:
        is_newer = self.record.order > self._settled.order
        if self.process and not self.runs:
            ended, self.process = self.process, None
            self._report_steps(ended)
            self._note_end(ended.returncode or 0, is_wanted=is_newer)
        if not is_newer:
            return None
        if self.runs:
            self._stop(abrupt=self.record.abrupt)
        elif not self.is_member:
            self._settled = self.record
            self.send(messages.Parked(self.watch.step, self.record.generation))
        elif self.record.store:
            return await self._begin()
        elif self.position == 0 and self.local_rank == 0 and self._opened != self.record.order:
            self._opened = self.record.order
            self.send(messages.StoreOpened(self.record.generation, _free_port()))
        return None

    def _note_end(self, returncode: int, *, is_wanted: bool) -> None:
        """`is_wanted`: there is a newer generation."""
        if self._has_run_well():
            self._failures = 0
        if self._asked and not self._killed:
            self._report_save(returncode)
        elif is_wanted or self._killed:
            # A peer was lost, and perhaps the script has noticed it first.
            return
        elif returncode == 0:
            self.send(messages.ScriptEnded())
        else:
            self._failure = exit_code(returncode)
            how = f"hung: {self._hang}" if self._hang else f"had exit code {self._failure}"
            self.send(messages.Progress(failure=f"had to start the script again, which {how}"))
            # Perhaps because a peer was lost: the coordinator knows soon.
            self.send(messages.Broken(self._settled.generation))

    def _report_save(self, returncode: int) -> None:
        """Of a script that was asked to save and end: how it has failed to, if it has."""
        message = ""
        if returncode == -self.stop_signal:
            message = f"the script does not handle {self.stop_signal.name}, and saved nothing"
        elif self._was_late:
            message = f"the script did not end within {self.grace_s:g} s, and was killed"
        elif returncode not in (0, exit_code(-self.stop_signal)):
            code = exit_code(returncode)
            message = f"the script failed with exit code {code} when it had to save"
        if message:
            print(f"elastic_runtime: {message}", file=sys.stderr)
            self.send(messages.Progress(save_message=f"pod {self._index}: {message}"))
        elif self.watch.knows_step:
            self.send(messages.Progress(durable_step=self.watch.step))

    def _stop(self, *, abrupt: bool) -> None:
        """Ask once. After a loss the script waits for a peer that does not answer: kill it."""
        assert self.process
        if abrupt:
            self._killed = True
            self.process.kill()
        elif not self._asked:
            self._asked = True
            log.info("script asked to stop", extra={"signal": self.stop_signal.name})
            self.process.send_signal(self.stop_signal)
            asyncio.get_running_loop().call_later(self.grace_s, self._kill_late, self.process)

    def _kill_late(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            self._was_late = True
            process.kill()

    async def _begin(self) -> int | None:
        """Start the script in the newest generation, unless it fails again and again."""
        if self._failure is not None and not is_loss(self._settled, self.record):
            self._failures += 1
            if self._failures > MAX_RESTARTS:
                return self._give_up(self._failure)
        self._failure = None
        self._settled = self.record
        self._asked = self._killed = self._was_late = False
        self._hang = ""
        self._complains = True
        self._started_at = time.monotonic()
        self.watch.begin()
        ranks = rank_environment(
            self.record,
            self.position,
            self.local_rank,
            self.ranks,
            self.env.get(contract.JOB_ENV, ""),
            self._starts,
        )
        try:
            ranks |= accumulation_environment(self.env, int(ranks["WORLD_SIZE"]))
        except ValueError as error:
            return self._fail(str(error), USAGE_ERROR)
        self._starts += 1
        await self.start(self.command, {**self.env, **ranks})
        step = self.watch.step
        self.send(messages.Formed(self.record.generation, self.record.members, step))
        return None

    def _give_up(self, code: int) -> int:
        reason = (
            f"the script failed {self._failures} times in a row, with exit code {code}: see the "
            "pod's log"
        )
        return self._fail(reason, code)

    def _fail(self, reason: str, code: int) -> int:
        print(f"elastic_runtime: {reason}", file=sys.stderr)
        self.send(messages.Failed(reason, is_mistake=True))
        return code


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port


def main(signal_name: str, *command: str) -> int:
    watch = ScriptWatch(patience_from(os.environ))
    names = {STOP_SIGNAL_ENV: signal_name, PROGRESS_FILE_ENV: watch.path}
    ranks = int(os.environ.get(contract.RANKS_ENV, "1"))
    env = with_defaults(without(os.environ, NCCL_DEFAULTS), ranks) | names
    descriptor = int(env.pop(AGENT_FD_ENV))
    worker = RestartedRank(
        signal.Signals[signal_name],
        [sys.executable, "-u", *command],
        env,
        int(env.pop(LOCAL_RANK_ENV)),
        ranks,
        float(env.get(contract.GRACE_ENV, "30")),
        watch,
    )
    return asyncio.run(worker.run(descriptor))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
