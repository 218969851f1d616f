"""How the runtime writes its log: one JSON object a line.

cede/kube/logs.py does the same for the controllers. They share no code, because the runtime is
installed in training images and must not depend on the controllers.
"""

import json
import logging
from typing import TextIO


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


def log_to(stream: TextIO) -> None:
    """Write what the runtime logs, from INFO on, to `stream`, beside a script's own handlers.

    Only the first call has an effect.
    """
    log = logging.getLogger("elastic_runtime")
    if any(isinstance(handler.formatter, JsonLineFormatter) for handler in log.handlers):
        return
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLineFormatter())
    log.addHandler(handler)
    log.setLevel(log.level or logging.INFO)
