"""Decides whether a state is the best so far, and marks its save.

The state that a script measures between two steps is saved when the next step is committed, just
before the optimizer changes it.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from elastic_runtime.checkpointing import best_mark
from elastic_runtime.checkpointing.best_mark import BestMark

log = logging.getLogger(__name__)
# How long a step waits for the save before, so that the best state is not missed.
WAIT_S = 10.0
# How long the other ranks wait for the mark of the last state: the leading rank may be lost.
MARK_TIMEOUT_S = 10.0
MARK_POLL_INTERVAL_S = 0.02


class BestSave:
    """Of one rank. What the leading rank says counts.

    `report`: called with messages for the job's status. `wait(seconds)`: until this rank writes
    nothing more; False if it still does. `durable_step`: of the newest durable checkpoint.
    """

    def __init__(
        self,
        directory: Path | None,
        report: Callable[..., None],
        wait: Callable[[float], bool],
        durable_step: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._report = report
        self._wait = wait
        self._durable_step = durable_step
        # What the script asked for last, and what was ordered of that.
        self._request: BestMark | None = None
        self._ordered: BestMark | None = None

    def request(self, mark: BestMark) -> None:
        """Keep the state of this step if it is the best so far."""
        self._request = mark

    def is_due(self, step: int) -> bool:
        """Whether the state of `step`, which is about to change, is to be saved. For the leading
        rank."""
        request = self._request
        if not self._directory or not request or request.step != step:
            return False
        if not self._wait(WAIT_S):
            self._report(
                save_message=(
                    f"the state of step {step} is not kept as the best: the save before it still "
                    f"is being written to {self._directory}"
                )
            )
            return False
        if not self._is_better(request, self._directory):
            return False
        self._ordered = request
        if self._durable_step() == step:
            # A save of the same step was due too.
            self.mark(step)
            return False
        return True

    def wait_for_mark(self) -> None:
        """Until the leading rank has marked what was requested, if it is the best: then this rank
        reads the same mark. For the other ranks, when no step follows."""
        if not self._directory or not self._request:
            return
        end = time.monotonic() + MARK_TIMEOUT_S
        while self._is_better(self._request, self._directory):
            if time.monotonic() > end:
                log.info("the best was not marked in time", extra={"step": self._request.step})
                return
            time.sleep(MARK_POLL_INTERVAL_S)

    def mark(self, step: int) -> None:
        """The checkpoint of `step` is durable: mark it if it is the best. Reports a failure."""
        for mark in (self._ordered, self._request):
            if mark and mark.step == step and self._directory:
                self._mark(self._directory, mark)

    def _is_better(self, mark: BestMark, directory: Path) -> bool:
        """Reports a mark that cannot be read; nothing is better than that."""
        try:
            return mark.is_better_than(best_mark.read(directory))
        except OSError as error:
            message = f"the mark of the best in {directory} cannot be read: {error}"
            self._report(save_message=message)
            return False

    def _mark(self, directory: Path, mark: BestMark) -> None:
        if not self._is_better(mark, directory):
            return
        try:
            best_mark.write(directory, mark)
        except OSError as error:
            self._report(
                save_message=(
                    f"step {mark.step} is saved, and could not be marked as the best in "
                    f"{directory}: {error}"
                )
            )
            return
        log.info("marked as the best", extra={"step": mark.step, "value": mark.value})
