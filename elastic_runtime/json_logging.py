"""How the runtime writes its log: one JSON object a line, or text where there is no agent.

cede/kube/logs.py does the same for the controllers. They share no code, because the runtime is
installed in training images and must not depend on the controllers.
"""

import json
import logging
from collections.abc import Mapping
from typing import TextIO

# The message of a record that people on a terminal are shown too, though it is no warning: a job
# that was meant to start from step 0 must not continue unseen. Only the leading rank logs it.
CONTINUES = "continues from a checkpoint"


class JsonLineFormatter(logging.Formatter):
    """A JSON object a line: time, level, logger, message, and the fields given as `extra`."""

    standard_fields = frozenset(vars(logging.makeLogRecord({})))

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {
            name: value for name, value in vars(record).items() if name not in self.standard_fields
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A line for people: the message, and the fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            name: value
            for name, value in vars(record).items()
            if name not in JsonLineFormatter.standard_fields
        }
        error = self.formatException(record.exc_info) if record.exc_info else ""
        return sentence(record.getMessage(), facts, error)


def sentence(message: str, facts: Mapping[str, object], error: str) -> str:
    """A record for people. `error`: a traceback, or empty."""
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    lines = [f"elastic_runtime: {message}" + (f" ({shown})" if shown else "")]
    return "\n".join([*lines, error] if error else lines)


def log_to(stream: TextIO) -> None:
    """Write what the runtime logs, from INFO on, to `stream` only.

    A script's own handlers would repeat the lines, without their fields. Only the first call has
    an effect.
    """
    _write(stream, JsonLineFormatter())


def log_for_people(stream: TextIO) -> None:
    """The same as text, unless the script has handlers of its own, which get it then."""
    if not logging.getLogger().handlers:
        _write(stream, TextFormatter())


def _write(stream: TextIO, formatter: logging.Formatter) -> None:
    log = logging.getLogger("elastic_runtime")
    ours = (JsonLineFormatter, TextFormatter)
    if any(isinstance(handler.formatter, ours) for handler in log.handlers):
        return
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    log.addHandler(handler)
    log.propagate = False
    log.setLevel(log.level or logging.INFO)
