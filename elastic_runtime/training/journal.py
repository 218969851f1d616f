"""The job's own log, opt-in: a line for every step and for every micro-batch, appended and flushed,
so that it survives its writer.

A sample's line is written before its step is committed and names the generation it was computed in;
the step's line names the generation
that committed it. So a step done again in a new generation does not count its samples twice.
"""

import json
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
# bytes at a file's end: more than a line
TAIL = 1 << 16


class Journal:
    """Nothing is written before `begin`, nor without a directory."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self._steps: _Lines | None = None
        self._samples: _Lines | None = None

    def begin(self, name: str, job: dict[str, int] | None) -> None:
        """Once, however often it is called, unless it failed, which is logged. `job`: what it is,
        told by the leading rank."""
        if not self.directory or self._steps:
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if job:
                (self.directory / "run.json").write_text(json.dumps(job) + "\n")
            self._samples = _Lines(self.directory / f"samples-{name}.jsonl")
            self._steps = _Lines(self.directory / f"steps-{name}.jsonl")
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
        more = {} if pause_s is None else {"pause_ms": round(pause_s * 1000, 3)}
        if self._steps:
            self._steps.write(
                step=step, loss=loss, size=size, generation=generation, time=time.time(), **more
            )


def newest_generation(directory: Path | None) -> int:
    """The newest that any rank's journal names, 0 for none: a job whose every pod was lost counts
    on from there, so none is used twice."""
    newest = 0
    for path in directory.glob("s*-*.jsonl") if directory else ():
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            # they only grow within a file
            last = re.findall(rb'"generation":(\d+)', file.read())
        newest = max(newest, int(last[-1]) if last else 0)
    return newest


class _Lines:
    """A file that lines are appended to. What a disk does not take is left out, and said once: a
    log costs no step."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ill = False
        # open for the life of the process
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        size = os.fstat(self._file).st_size
        # by a killed writer, or a disk that was full
        self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def write(self, **facts: Any) -> None:
        line = b"\n" * self._torn + json.dumps(facts, separators=(",", ":")).encode() + b"\n"
        try:
            self._torn = os.write(self._file, line) != len(line)
            self._ill = False
        except OSError as error:
            if not self._ill:
                log.error(
                    "the journal takes no lines: they are left out until it does",
                    extra={"path": str(self._path), "reason": str(error)},
                )
            self._ill = True
