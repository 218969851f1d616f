"""Starting programs, waiting, and saying what was done and how long it took."""

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
_began = time.monotonic()


def say(what: str) -> None:
    """A line of progress on standard error, so that standard output stays for answers."""
    print(f"{time.monotonic() - _began:7.1f} s  {what}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def stage(what: str) -> Iterator[None]:
    """Says `what` with the time it took, when it is done."""
    began = time.monotonic()
    yield
    say(f"{what} ({time.monotonic() - began:.1f} s)")


def sh(
    *argv: str | Path, check: bool = True, cwd: Path | None = None, stdin: str | None = None
) -> str:
    """What the program prints. Raises Failure with its own words when it fails, unless `check` is
    off."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, text=True, capture_output=True, cwd=cwd, input=stdin, check=False
        )
    except FileNotFoundError as error:
        raise Failure(
            f"{words[0]} is not installed: deploy/local/setup.sh installs what is missing"
        ) from error
    if check and done.returncode:
        raise Failure(f"{shlex.join(words[:12])}: {last_lines(done.stderr or done.stdout)}")
    return done.stdout


def last_lines(text: str, count: int = 6) -> str:
    return "\n".join(text.strip().splitlines()[-count:]) or "it failed without a word"


def until(probe: Callable[[], T], what: str, seconds: float = 60, every: float = 0.05) -> T:
    """The first true answer of `probe`. Raises Failure when `seconds` have gone by without one."""
    end = time.monotonic() + seconds
    while not (got := probe()):
        if time.monotonic() > end:
            raise Failure(f"gave up after {seconds:.0f} s waiting for {what}")
        time.sleep(every)
    return got


def private(*argv: str | Path, pids: bool = False) -> Sequence[str | Path]:
    """The command with mounts (and processes) of its own, which end with it."""
    more = ("--fork", "--kill-child", "--pid", "--mount-proc") if pids else ()
    return ("unshare", "--mount", *more, *argv)
