"""The job's own log, opt-in: a line for every step and for every micro-batch, appended and flushed, so that it survives its writer.

A sample's line is written before its step is committed and names the generation it was computed in; the step's line names the generation
that committed it. So a step done again in a new generation does not count its samples twice.
"""

import json
import re
import time
from pathlib import Path
from typing import IO, Any

TAIL = 1 << 16  # bytes at a file's end: more than a line


class Journal:
    def __init__(self, directory: Path | None, name: str) -> None:
        self.directory = directory
        self._steps: IO[str] | None = None
        self._samples: IO[str] | None = None
        if directory:
            directory.mkdir(parents=True, exist_ok=True)
            self._steps, self._samples = _append(directory / f"steps-{name}.jsonl"), _append(directory / f"samples-{name}.jsonl")

    def run(self, samples: int, micro_batches: int, micro_batch_size: int, seed: int) -> None:
        """What the job is, once."""
        if self.directory:
            facts = {"samples": samples, "micro_batches": micro_batches, "micro_batch_size": micro_batch_size, "seed": seed}
            (self.directory / "run.json").write_text(json.dumps(facts) + "\n")

    def sample(self, step: int, micro_batch: int, indices: list[int], generation: int) -> None:
        _write(self._samples, step=step, micro_batch=micro_batch, samples=indices, generation=generation)

    def step(self, step: int, loss: float, size: int, generation: int, pause_s: float | None) -> None:
        more = {} if pause_s is None else {"pause_ms": round(pause_s * 1000, 3)}
        _write(self._steps, step=step, loss=loss, size=size, generation=generation, time=time.time(), **more)


def newest_generation(directory: Path | None) -> int:
    """The newest that any rank's journal names, 0 for none: a job whose every pod was lost counts on from there, so none is used twice."""
    newest = 0
    for path in directory.glob("s*-*.jsonl") if directory else ():
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            last = re.findall(rb'"generation":(\d+)', file.read())  # they only grow within a file
        newest = max(newest, int(last[-1]) if last else 0)
    return newest


def _append(path: Path) -> IO[str]:
    """A file to append lines to; a line that a killed writer left torn is ended first."""
    torn = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
    file = open(path, "a", buffering=1)  # noqa: SIM115  it stays open for the life of the process
    if torn:
        file.write("\n")
    return file


def _write(file: IO[str] | None, **facts: Any) -> None:
    if file:
        file.write(json.dumps(facts, separators=(",", ":")) + "\n")
