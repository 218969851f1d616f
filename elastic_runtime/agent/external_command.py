"""Runs a command that does not know Cede as a pod's only worker process.

    python -m elastic_runtime --signal USR1 [--done FILE] -- any command

The command runs while its pod is wanted. When the pod must leave, because of the size or SIGTERM,
the command gets the signal once. It has handed over when it has ended or has touched FILE. If the
pod is wanted again, the command is started again, unless it still runs. When the command ends by
itself the pod ends, with the same exit code.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from elastic_runtime import messages
from elastic_runtime.agent.command_worker import CommandWorker, exit_code, signal_named
from elastic_runtime.agent.settings import AGENT_FD_ENV, LOCAL_RANK_ENV

log = logging.getLogger(__name__)
# Between two checks for FILE.
POLL_INTERVAL_S = 0.1
MODULE = ("-m", "elastic_runtime.agent.external_command")


def script(signal_name: str, done_file: str, command: Sequence[str]) -> list[str]:
    """The worker process that an agent starts. Raises ValueError for an unknown signal."""
    name = signal_named(signal_name).name
    return [*MODULE, name, done_file, *command]


def is_worker(script: Sequence[str]) -> bool:
    """Whether `script` returned these arguments."""
    return tuple(script[:2]) == MODULE


class ExternalCommand(CommandWorker):
    def __init__(
        self,
        stop_signal: signal.Signals,
        done_file: Path | None,
        command: Sequence[str],
        env: dict[str, str],
    ) -> None:
        super().__init__()
        self.stop_signal = stop_signal
        self.done_file = done_file
        self.command = command
        self.env = env
        self._parked = False
        # The newest generation that this pod trains in or is parked for.
        self._settled_generation = 0

    async def react(self) -> int | None:
        if self.leaving:
            await self._park()
        elif self.record.generation > self._settled_generation:
            await self._settle()
        if not self.process or self.process.returncode is None or self._parked:
            return None
        if self.process.returncode == 0:
            self.send(messages.CommandEnded())
        return exit_code(self.process.returncode)

    async def _settle(self) -> None:
        """Run in this generation, or hand over because it does not include this pod."""
        record = self.record
        if not self.is_member:
            await self._park()
        elif record.store:
            self._parked = False
            if not self.runs:
                await self.start(self.command, self.env)
            self.send(messages.Formed(record.generation, record.members, step=0))
        else:
            # Commands need no store, but the others wait until one is reported.
            if self.position == 0:
                self.send(messages.StoreOpened(record.generation, port=0))
            return
        self._settled_generation = record.generation

    def _has_touched_file(self) -> bool:
        return self.done_file is not None and self.done_file.exists()

    async def _park(self) -> None:
        """Ask the command to stop, and wait until it has ended or touched its file."""
        if self.process and self.runs and not self._parked:
            if self.done_file:
                # A file of an earlier run is no answer.
                self.done_file.unlink(missing_ok=True)
            log.info("command asked to stop", extra={"signal": self.stop_signal.name})
            self.process.send_signal(self.stop_signal)
            # Nothing notifies us of a new file.
            while self.runs and not self._has_touched_file():  # noqa: ASYNC110
                await asyncio.sleep(POLL_INTERVAL_S)
        self._parked = True
        self.send(messages.Parked(step=0, generation=self.record.generation))


def main(signal_name: str, done_file: str, *command: str) -> int:
    env = dict(os.environ)
    descriptor = int(env.pop(AGENT_FD_ENV))
    # A command that starts an elastic job of its own is no rank of this one.
    del env[LOCAL_RANK_ENV]
    path = Path(done_file) if done_file else None
    worker = ExternalCommand(signal.Signals[signal_name], path, command, env)
    return asyncio.run(worker.run(descriptor))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
