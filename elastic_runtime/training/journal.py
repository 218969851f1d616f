"""A log of the job for audits, written only if the script asks for it.

Every step and every micro-batch is one line, which survives the process that wrote it. A
micro-batch's line is written before its step is committed and names the generation in which it was
computed. A step's line names the generation that committed it. So a step that is repeated in
another generation does not count its samples twice.
"""

import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
# Bytes that are read from a file's end to find its last line: more than a line has.
TAIL_BYTES = 1 << 16


class Journal:
    """Nothing is written before `begin`, nor without a directory."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._steps: _LineFile | None = None
        self._samples: _LineFile | None = None

    def begin(self, name: str, job: dict[str, int] | None) -> None:
        """Open this rank's files; later calls do nothing. A failure is logged.

        `name`: of this rank. `job`: the data options, written by the leading rank.
        """
        if not self.directory or self._steps:
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if job:
                (self.directory / "run.json").write_text(json.dumps(job) + "\n")
            self._samples = _LineFile(self.directory / f"samples-{name}.jsonl")
            self._steps = _LineFile(self.directory / f"steps-{name}.jsonl")
        except OSError as error:
            log.error(
                "the journal cannot be opened: nothing is written there",
                extra={"path": str(self.directory), "reason": str(error)},
            )

    def sample(self, step: int, micro_batch: int, indices: list[int], generation: int) -> None:
        if self._samples:
            self._samples.write(
                step=step, micro_batch=micro_batch, samples=indices, generation=generation
            )

    def step(
        self, step: int, loss: float, size: int, generation: int, pause_s: float | None
    ) -> None:
        """`size`: pods of the job. `pause_s`: what a change of generation added before the step."""
        pause = {} if pause_s is None else {"pause_ms": round(pause_s * 1000, 3)}
        if self._steps:
            self._steps.write(
                step=step, loss=loss, size=size, generation=generation, time=time.time(), **pause
            )


def newest_generation(directory: Path | None) -> int:
    """The newest generation in any rank's journal, 0 if there is none.

    A job whose pods were all lost numbers its generations from there, so no number is used twice.
    """
    newest = 0
    for path in directory.glob("s*-*.jsonl") if directory else ():
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            # They only grow within a file, so the last one is the newest.
            generations = re.findall(rb'"generation":(\d+)', file.read())
        newest = max(newest, int(generations[-1]) if generations else 0)
    return newest


class _LineFile:
    """Lines are appended to a file; one that cannot be written is dropped, so that no step fails.

    The first dropped line is logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_failing = False
        # Open for the life of the process.
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        size = os.fstat(self._file).st_size
        # The writer was killed, or the disk was full.
        self._ends_within_line = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def write(self, **facts: Any) -> None:
        end_of_last = b"\n" if self._ends_within_line else b""
        line = end_of_last + json.dumps(facts, separators=(",", ":")).encode() + b"\n"
        try:
            self._ends_within_line = os.write(self._file, line) != len(line)
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                log.error(
                    "the journal cannot be written: its lines are dropped until it can",
                    extra={"path": str(self._path), "reason": str(error)},
                )
            self._is_failing = True
