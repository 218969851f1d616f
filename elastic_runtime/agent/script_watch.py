"""Watches a script for torchrun: its steps, as far as it reports them, and whether it hangs."""

import math
import os
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from elastic_runtime import contract
from elastic_runtime.agent.hang_detection import (
    Patience,
    PausableClock,
    Pulse,
    script_hang_reason,
)
from elastic_runtime.messages import StepCommitted

WATCH_INTERVAL_S = 0.1
# A machine that is busy looks later. A longer gap means that this process was frozen too.
MAX_GAP_S = 1.0
# Between two looks. More are no steps but, for example, samples.
MAX_STEPS = 64
# Of "CALLS STEP", two numbers.
MAX_BYTES = 64
UNKNOWN_STEP = -1


def patience_from(env: Mapping[str, str]) -> Patience:
    """Without a variable of the user's: no timeout for a step, as with torchrun."""
    return Patience(
        early_timeout_s=float(env.get(contract.LIVENESS_TIMEOUT_ENV, Patience().early_timeout_s)),
        step_timeout_s=float(env.get(contract.STEP_TIMEOUT_ENV, math.inf)),
    )


class ScriptWatch:
    """`path`: the file in which `elastic_runtime.restart` reports.

    `step`: the newest that was reported, also before the script was started again; 0 if none was.
    `knows_step`: whether the script has reported one since it was started.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._clock = PausableClock(time.monotonic, MAX_GAP_S)
        # A pod may have no folder that it can write to.
        self._file = os.memfd_create("progress")
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"
        self.step = 0
        self.begin()

    def begin(self) -> None:
        """The script is started."""
        self._clock.tick()
        os.ftruncate(self._file, 0)
        # Since then.
        self._calls = 0
        self.knows_step = False
        self._last_call_at = self._clock()
        self._stopped_at: float | None = None
        self._seconds = deque[float](maxlen=MAX_STEPS)

    @property
    def has_reported(self) -> bool:
        return self._calls > 0

    def look(self, pid: int) -> list[StepCommitted]:
        """The steps since the last look."""
        self._clock.tick()
        now = self._clock()
        if not _is_stopped(pid):
            self._stopped_at = None
        elif self._stopped_at is None:
            self._stopped_at = now
        calls, step = self._read()
        if calls <= self._calls:
            return []
        seconds = (now - self._last_call_at) / (calls - self._calls)
        if self._calls:
            self._seconds.append(seconds)
        self._calls = calls
        self._last_call_at = now
        return [] if step == UNKNOWN_STEP else self._advance(step, seconds)

    def _read(self) -> tuple[int, int]:
        words = os.pread(self._file, MAX_BYTES, 0).split()
        # It is empty for a moment while it is written.
        return (int(words[0]), int(words[1])) if len(words) == 2 else (0, UNKNOWN_STEP)

    def _advance(self, step: int, seconds: float) -> list[StepCommitted]:
        """The first report of a script is the step that it has loaded."""
        first = max(self.step, step - MAX_STEPS) + 1 if self.knows_step else step + 1
        self.knows_step = True
        self.step = step
        return [StepCommitted(number, math.nan, seconds) for number in range(first, step + 1)]

    def hang_reason(self) -> str:
        """Empty if it does not hang, as far as anybody knows."""
        now = self._clock()
        pulse = Pulse(
            steps=self._calls,
            unanswered_s=0.0 if self._stopped_at is None else now - self._stopped_at,
            since_step_s=now - self._last_call_at,
            median_step_s=median(self._seconds) if self._seconds else 0.0,
            slowest_step_s=max(self._seconds, default=0.0),
        )
        return script_hang_reason(pulse, self._patience)


def _is_stopped(pid: int) -> bool:
    """By a signal. A process that a debugger has stopped is not."""
    try:
        # The name before the parenthesis may have spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        # It has ended.
        return False
