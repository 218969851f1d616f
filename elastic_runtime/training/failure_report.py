"""Tells the agent why a script ends with an exception, and prints a mistake in one line.

Without it, each of hundreds of workers would print a traceback, four times. It needs no torch, so
that it works as soon as the script imports a name of elastic_runtime.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from elastic_runtime.agent.rank_environment import VARIABLES
from elastic_runtime.agent.settings import AGENT_FD_ENV, AGENT_PID_ENV
from elastic_runtime.messages import Failed, Progress, encode_line
from elastic_runtime.mistake import Mistake

PACKAGE = str(Path(__file__).resolve().parents[1])
# A module of Python that is a part of it, such as os.
FROZEN = "<frozen "
TORCH = f"{os.sep}site-packages{os.sep}torch{os.sep}"
# Characters of what is sent; a log has the whole traceback.
MAX_REASON = 400
# Characters. A shorter value of a variable may be part of any word.
MIN_SECRET = 8
# The same of what is named a password; "false" is none.
MIN_PASSWORD = 6
PASSWORDS = (
    # //user:password@host
    re.compile(r"//[^\s/:]*:([^\s/]+)@"),
    # password=..., "token": "...", Authorization: Bearer ...
    re.compile(
        r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|credentials?|authorization)"
        r"[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?([^\s\"',;&]+)",
        re.IGNORECASE,
    ),
)
GRAD_SCALER = (
    "the script calls a GradScaler, which the session does here: remove the calls, and pass it to "
    "the session, grad_scaler=scaler"
)
# What torch says in a script that is ported only in part, and the cure.
CURES = {
    "Default process group has not been initialized": (
        "the script uses torch.distributed, which only the session does here: remove the call, or "
        "DistributedDataParallel; workers meet at the end of each step, and session.rank and "
        "session.world are known in the loop"
    ),
    "environment variable RANK expected": (
        "the script calls init_process_group, but the session connects the workers: remove the "
        "call, and DistributedDataParallel"
    ),
    "did not use scaler.scale(loss or outputs)": GRAD_SCALER,
    "No inf checks were recorded": GRAD_SCALER,
}
NO_VARIABLES = (
    "the script reads %s, but elastic_runtime sets none of torchrun's variables: use "
    "elastic_runtime.device(), and session.rank and session.world in the loop; or start a script "
    "that stays one for torchrun by `python -m elastic_runtime --restart`"
)
# Sentences for the job's status.
TEXTS = ("message", "save_message", "size_message", "failure")

# The exception that was sent: the script's own hook may call ours again.
_reported: BaseException | None = None
_reports_early = False


def report_failures(send: Callable[[Failed], object]) -> None:
    """From now on an exception that ends this process is sent first."""
    show = sys.excepthook
    worker = os.getpid()

    def report(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        global _reported
        # A process that the script forked does not speak for it.
        if os.getpid() != worker or error is _reported:
            show(kind, error, trace)
            return
        _reported = error
        cure = _cure(error, trace)
        cause = Mistake(cure) if cure else error
        is_mistake = isinstance(cause, Mistake)
        text = describe(cause, trace)
        reason = without_values(text, os.environ)[:MAX_REASON]
        # The agent may have ended.
        with suppress(OSError):
            send(Failed(reason, is_mistake, _may_heal(error)))
        if is_mistake:
            print(f"elastic_runtime: {text}", file=sys.stderr)
        else:
            show(kind, error, trace)

    sys.excepthook = report


def report_early_failures() -> None:
    """The same before there is a link to the agent; nothing else is sent then.

    In a job of one a mistake is only printed. Does nothing in a process that a worker has started.
    """
    global _reports_early
    is_worker = os.environ.get(AGENT_PID_ENV) == str(os.getppid())
    if _reports_early or (AGENT_FD_ENV in os.environ and not is_worker):
        return
    _reports_early = True

    def send(failure: Failed) -> None:
        if is_worker:
            os.write(int(os.environ[AGENT_FD_ENV]), encode_line(failure))

    report_failures(send)


def _cure(error: BaseException, trace: TracebackType | None) -> str | None:
    """The sentence for what a script that is ported only in part ends with."""
    codes = [frame.f_code for frame, _ in traceback.walk_tb(trace)]
    is_variable = codes[-1:] == [type(os.environ).__getitem__.__code__]
    # Under `--restart` they are set.
    name = str(error.args[0]) if is_variable else ""
    if isinstance(error, KeyError) and name in VARIABLES:
        return NO_VARIABLES % name
    return next((cure for text, cure in CURES.items() if text in str(error)), None)


def _may_heal(error: BaseException) -> bool:
    """A file system may be mounted late. load_newest raises LookupError itself if it can read no
    checkpoint; the script's own are KeyError and IndexError."""
    return isinstance(error, OSError) or type(error) is LookupError


def describe(error: BaseException, trace: TracebackType | None) -> str:
    """One line: where in the script, and what."""
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith((PACKAGE, FROZEN)) and TORCH not in frame.filename
    ]
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    if isinstance(error, Mistake):
        return place + one_line(error)
    first_line = str(error).strip().partition("\n")[0]
    return f"{place}{type(error).__name__}: {first_line}"


def one_line(error: BaseException) -> str:
    """The first three lines of its text; load_state_dict, for one, gives a line for each tensor."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
    return " ".join(lines[:3]) + more


def without_secrets(progress: Progress) -> Progress:
    """As it may be sent: see `without_values`."""
    texts = {name: getattr(progress, name) for name in TEXTS}
    masked: dict[str, Any] = {
        name: without_values(text, os.environ) for name, text in texts.items() if text
    }
    return replace(progress, **masked) if masked else progress


def without_values(text: str, environment: Mapping[str, str]) -> str:
    """`text` with `$NAME` for the value of each variable, and for a password inside a value.

    The status, unlike a log, is kept and shown to others. A path that exists is no secret.
    """
    for secret, name in sorted(_secrets(environment), key=lambda pair: -len(pair[0])):
        if secret in text and not os.path.exists(secret):
            text = text.replace(secret, f"${name}")
    return text


def _secrets(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What may not be sent, each with its variable."""
    for name, value in environment.items():
        if len(value) >= MIN_SECRET:
            yield value, name
        for pattern in PASSWORDS:
            for password in pattern.findall(f"{name}={value}"):
                # A library quotes it as it is in the address, or decoded.
                for secret in {password, unquote(password)}:
                    if len(secret) >= MIN_PASSWORD:
                        yield secret, name
