"""Writes one JSON object a line for each log record, with the facts from `extra` as fields.

elastic_runtime/json_logging.py does the same for training pods. It is a second implementation,
because the runtime imports nothing of this package.
"""

import json
import logging
import sys

from cede.api.objects import rfc3339

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName", "asctime"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": rfc3339(record.created, micro=True),
            "level": record.levelname,
            "from": record.name,
            "message": record.getMessage(),
        }
        line |= {
            name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def setup(level: str = "INFO") -> None:
    """Every logger writes JSON lines to standard output afterwards."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
