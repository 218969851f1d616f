"""How the runtime writes its log: a JSON object a line."""

import json
import logging
from typing import TextIO


class Lines(logging.Formatter):
    """A JSON object a line: when, who, what, and the facts given as `extra`."""

    known = frozenset(vars(logging.makeLogRecord({})))

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
        }
        line |= {"message": record.getMessage()} | {
            name: value for name, value in vars(record).items() if name not in self.known
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def write_lines(to: TextIO) -> None:
    """Afterwards what the runtime logs, from INFO on, is written there, whatever else a script has
    set up. The first call counts."""
    log = logging.getLogger("elastic_runtime")
    if not any(isinstance(handler.formatter, Lines) for handler in log.handlers):
        handler = logging.StreamHandler(to)
        handler.setFormatter(Lines())
        log.addHandler(handler)
        log.setLevel(log.level or logging.INFO)
