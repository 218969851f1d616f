"""A local job on a terminal: one live line, and above it what the pods write.

Their log goes to a file. Of it, warnings and errors are shown as text, and that a job continues.
"""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from elastic_runtime.agent.control_client import Refused
from elastic_runtime.agent.job_report import end_of_job, line_without_answer, live_line
from elastic_runtime.contract import Status
from elastic_runtime.json_logging import CONTINUES, POD_ENDS, sentence

# Between two looks at the job.
INTERVAL_S = 0.5
# Without an answer, until the live line says so: an election or a start takes less.
SILENCE_S = 5.0
# For what a process that a pod left behind still writes.
LAST_LINES_S = 1.0
SHOWN_LEVELS = ("WARNING", "ERROR", "CRITICAL")
# Of a record.
STANDARD_FIELDS = frozenset({"time", "level", "logger", "message", "error"})
# A record of the log, perhaps after the name that `--tee` puts before it.
RECORD = re.compile(r"(?:\[[\d.]+\]: )?(\{.*\})")
# To the start of the line, and nothing on it.
ERASE = "\r\x1b[K"


class TerminalView:
    def __init__(self, stdout: TextIO, stderr: TextIO, log: Path) -> None:
        """`stderr` is the terminal. `log`: where the records of the pods go, after older ones."""
        self._stdout = stdout
        self._stderr = stderr
        self._path = log
        # If this continues a job, its log says why it ended.
        self._log = log.open("a")
        self._line = ""
        # The newest that are known: committed, and durable.
        self._step = 0
        self._durable_step = 0
        # Of the five above.
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, pods: Sequence[subprocess.Popen[bytes]], ask: Callable[[], Status]) -> None:
        """Show what the pods write, whose output are pipes, and what `ask` returns."""
        for pod in pods:
            for pipe, console in ((pod.stdout, self._stdout), (pod.stderr, self._stderr)):
                if pipe:
                    self._start_thread(self.copy, pipe, console)
        self._start_thread(self._follow, pods, ask)

    def _start_thread(self, work: Callable[..., None], *arguments: object) -> None:
        # A process that a pod left behind must not keep the command alive.
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _follow(self, pods: Sequence[subprocess.Popen[bytes]], ask: Callable[[], Status]) -> None:
        self.show("starting the pods")
        last = Status()
        # By the monotonic clock; None before the first answer.
        answered_at: float | None = None
        while not self._over.wait(INTERVAL_S):
            try:
                last = ask()
                answered_at = time.monotonic()
                self._note_steps(last.step, last.durableStep)
                self.show(live_line(last))
            except (OSError, ValueError, Refused):
                # No pod runs yet, or not any more, or they have no coordinator.
                if answered_at is None or time.monotonic() - answered_at < SILENCE_S:
                    continue
                codes = [pod.poll() for pod in pods]
                self.show(line_without_answer(codes, last.size, time.monotonic() - answered_at))

    def copy(self, pipe: BinaryIO, console: TextIO) -> None:
        """Pass on every line of a pod, until it ends.

        A pod whose pipe is full would stand still, so what cannot be shown or kept is dropped.
        """
        for line in pipe:
            # Of a bar that is drawn again and again, only its last state.
            text = line.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
            # The reader has gone, the disk is full, or the terminal does not have such a letter.
            with suppress(OSError, UnicodeEncodeError):
                self._pass_on(text, console)

    def _pass_on(self, text: str, console: TextIO) -> None:
        record = read_record(text)
        if record is None:
            self.say(text, console)
            return
        if record["message"] == POD_ENDS:
            self._note_steps(record.get("step"), record.get("durable_step"))
        with self._lock:
            # Closed after the end, which a process that a pod left behind outlives.
            if not self._log.closed:
                self._log.write(json.dumps(record) + "\n")
                self._log.flush()
        if record["level"] in SHOWN_LEVELS or record["message"] == CONTINUES:
            facts = {name: value for name, value in record.items() if name not in STANDARD_FIELDS}
            self.say(sentence(str(record["message"]), facts, str(record.get("error", ""))))

    def _note_steps(self, step: object, durable_step: object) -> None:
        """A script may write anything that looks like a record."""
        with self._lock:
            if isinstance(step, int):
                self._step = max(self._step, step)
            if isinstance(durable_step, int):
                self._durable_step = max(self._durable_step, durable_step)

    def say(self, text: str, console: TextIO | None = None) -> None:
        """Show `text` above the live line."""
        with self._lock:
            self._stderr.write(ERASE)
            self._stderr.flush()
            (console or self._stderr).write(f"{text}\n")
            (console or self._stderr).flush()
            self._stderr.write(self._line)
            self._stderr.flush()

    def show(self, line: str) -> None:
        """Show this as the live line."""
        with self._lock:
            # A line that is wrapped could not be erased.
            self._line = line[: self._columns() - 1]
            self._stderr.write(ERASE + self._line)
            self._stderr.flush()

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stderr.fileno()).columns or 80
        except OSError:
            return 80

    def end(self, code: int) -> None:
        """Show how the job has ended, with which exit code, in place of the live line."""
        self._over.set()
        for thread in self._threads:
            thread.join(LAST_LINES_S)
        with self._lock:
            self._line = ""
            self._log.close()
        text = end_of_job(code, self._step, self._durable_step)
        self.say(f"{text}; its log is in {self._path}")


def read_record(text: str) -> dict[str, object] | None:
    """The record of the runtime's log in this line; None if it is something else."""
    match = RECORD.fullmatch(text)
    if not match:
        return None
    try:
        values = json.loads(match[1])
    except ValueError:
        return None
    is_record = isinstance(values, dict) and STANDARD_FIELDS - {"error"} <= values.keys()
    return values if is_record else None
