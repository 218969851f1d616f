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
# The message of an agent's last record, with its newest committed and its newest durable step.
POD_ENDS = "pod ends"
# The logger above all others of the runtime.
LOG = logging.getLogger("elastic_runtime")


class JsonLineFormatter(logging.Formatter):
    """A JSON object a line: time, level, logger, message, and the fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= facts_of(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A line for people: the message, and the fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        error = self.formatException(record.exc_info) if record.exc_info else ""
        return sentence(record.getMessage(), facts_of(record), error)


class FactsInMessage(logging.Handler):
    """Adds the fields to the message, for the handlers of the loggers above: those of a script."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if facts := facts_of(record):
                args = record.args if isinstance(record.args, tuple) else ()
                text = str(record.msg) if args else record.getMessage().replace("%", "%%")
                # the same text for all values: some handlers count by it
                record.msg = with_facts(text, dict.fromkeys(facts, "%s"))
                record.args = (*args, *facts.values())
        except (TypeError, ValueError, KeyError):
            # of a message and its arguments; no log line ends the training
            self.handleError(record)


def facts_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields given as `extra`, without those of a factory that the script has set."""
    # the last two are written by formatters
    standard = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    return {name: value for name, value in vars(record).items() if name not in standard}


def with_facts(message: str, facts: Mapping[str, object]) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in facts.items())
    return message + (f" ({shown})" if shown else "")


def sentence(message: str, facts: Mapping[str, object], error: str) -> str:
    """A record for people. `error`: a traceback, or empty."""
    lines = [f"elastic_runtime: {with_facts(message, facts)}"]
    return "\n".join([*lines, error] if error else lines)


def log_to(stream: TextIO) -> None:
    """Write what the runtime logs, from INFO on, to `stream` only.

    A script's own handlers would repeat the lines, without their fields. Only the first call has
    an effect.
    """
    _write(stream, JsonLineFormatter())


def log_for_people(stream: TextIO) -> None:
    """The same as text. If the script has handlers of its own, they get it, with the fields in the
    message: they do not show fields that they do not know."""
    if not logging.getLogger().handlers:
        _write(stream, TextFormatter())
    elif not _has_handler():
        LOG.addHandler(FactsInMessage())


def _has_handler() -> bool:
    """Whether a call before this one has installed one."""
    ours = (JsonLineFormatter, TextFormatter)
    return any(
        isinstance(handler, FactsInMessage) or isinstance(handler.formatter, ours)
        for handler in LOG.handlers
    )


def _write(stream: TextIO, formatter: logging.Formatter) -> None:
    if _has_handler():
        return
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    LOG.addHandler(handler)
    LOG.propagate = False
    LOG.setLevel(LOG.level or logging.INFO)
