"""One JSON line for each log record, facts from `extra` beside the message."""

import json
import logging
import sys

from cede.api.objects import rfc3339

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName", "asctime"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": rfc3339(record.created, micro=True),
            "level": record.levelname,
            "from": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def setup(level: str = "INFO") -> None:
    """Afterwards every logger writes JSON lines to standard output."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
