"""The runtime's log is a JSON object a line, beside a script's own log."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from elastic_runtime.json_logging import log_to


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """The runtime's logger without handlers; restored afterwards."""
    logger = logging.getLogger("elastic_runtime")
    handlers = logger.handlers[:]
    level = logger.level
    logger.handlers.clear()
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_line_is_written_once_and_reaches_the_scripts_handlers(
    log: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    first = io.StringIO()
    second = io.StringIO()
    log_to(first)
    log_to(second)
    log.getChild("agent.agent").info("pod up", extra={"index": 3})
    log.debug("not this")
    (text,) = first.getvalue().splitlines()
    line = json.loads(text)
    assert (line["message"], line["level"], line["index"]) == ("pod up", "INFO", 3)
    assert line["logger"] == "elastic_runtime.agent.agent"
    assert second.getvalue() == ""
    assert [record.getMessage() for record in caplog.records] == ["pod up"]


def test_exception_is_one_field(log: logging.Logger) -> None:
    stream = io.StringIO()
    log_to(stream)
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("it failed")
    (text,) = stream.getvalue().splitlines()
    assert "KeyError: 'x'" in json.loads(text)["error"]
