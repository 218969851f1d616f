"""Runs programs, waits, and reports progress."""

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from deploy.local.paths import Failure

T = TypeVar("T")
_started = time.monotonic()


def report_progress(text: str) -> None:
    """Prints a line on standard error; standard output is for results."""
    print(f"{time.monotonic() - _started:7.1f} s  {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def stage(text: str) -> Iterator[None]:
    """Reports `text` and its duration when the block has ended."""
    started = time.monotonic()
    yield
    report_progress(f"{text} ({time.monotonic() - started:.1f} s)")


def run_command(
    *argv: str | Path, check: bool = True, cwd: Path | None = None, stdin: str | None = None
) -> str:
    """Runs a program; returns its standard output.

    With `check`, raises Failure with the last lines of its output if it fails.
    """
    words = [str(word) for word in argv]
    try:
        process = subprocess.run(
            words, text=True, capture_output=True, cwd=cwd, input=stdin, check=False
        )
    except FileNotFoundError as error:
        raise Failure(
            f"{words[0]} is not installed: deploy/local/setup.sh installs what is missing"
        ) from error
    if check and process.returncode:
        raise Failure(f"{shlex.join(words[:12])}: {last_lines(process.stderr or process.stdout)}")
    return process.stdout


def last_lines(text: str, count: int = 6) -> str:
    return "\n".join(text.strip().splitlines()[-count:]) or "it failed without output"


def wait_until(
    probe: Callable[[], T], subject: str, seconds: float = 60, interval_s: float = 0.05
) -> T:
    """The first true result of `probe`. Raises Failure when there is none within `seconds`.

    Between two probes it waits at least as long as one took: most are a kubectl, which on a slow
    machine would take the processor from what it waits for.
    """
    began = time.monotonic()
    end = began + seconds
    while not (result := probe()):
        now = time.monotonic()
        if now > end:
            raise Failure(f"waited {seconds:.0f} s for {subject}: run the command again")
        time.sleep(max(interval_s, now - began))
        began = time.monotonic()
    return result


def in_private_namespaces(*argv: str | Path, pids: bool = False) -> Sequence[str | Path]:
    """The command in a mount namespace, and with `pids` in a process namespace, of its own."""
    pid_flags = ("--fork", "--kill-child", "--pid", "--mount-proc") if pids else ()
    return ("unshare", "--mount", *pid_flags, *argv)
