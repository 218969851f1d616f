"""Tells the agent why a script ends with an exception, and prints a mistake in one line.

Without it, each of hundreds of workers would print a traceback, four times.
"""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from elastic_runtime import messages
from elastic_runtime.messages import Failed
from elastic_runtime.script_checks import Mistake

PACKAGE = str(Path(__file__).resolve().parents[1])
# Characters of what is sent; a log has the whole traceback.
MAX_REASON = 400


def report_failures(send: Callable[[Failed], None]) -> None:
    """From now on an exception that ends this process is sent first."""
    show = sys.excepthook
    worker = os.getpid()

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if os.getpid() != worker:
            # A process that the script forked does not speak for it.
            show(kind, error, trace)
            return
        is_mistake = isinstance(error, Mistake)
        reason = describe(error, trace)
        # The agent may have ended.
        with suppress(OSError):
            send(messages.Failed(reason[:MAX_REASON], is_mistake, _may_heal(error)))
        if is_mistake:
            print(f"elastic_runtime: {reason}", file=sys.stderr)
        else:
            show(kind, error, trace)

    sys.excepthook = report


def _may_heal(error: BaseException) -> bool:
    """A file system may be mounted late. load_newest raises LookupError itself if it can read no
    checkpoint; the script's own are KeyError and IndexError."""
    return isinstance(error, OSError) or type(error) is LookupError


def describe(error: BaseException, trace: TracebackType | None) -> str:
    """One line: where in the script, and what."""
    frames = [f for f in traceback.extract_tb(trace) if not f.filename.startswith(PACKAGE)]
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    kind = "" if isinstance(error, Mistake) else f"{type(error).__name__}: "
    return place + kind + one_line(error)


def one_line(error: BaseException) -> str:
    """The first three lines of its text; load_state_dict, for one, gives a line for each tensor."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
    return " ".join(lines[:3]) + more
