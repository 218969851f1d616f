"""Log records as JSON lines."""

import json
import logging
import sys

import pytest

from cede.kube import logs


def test_a_record_is_one_json_line_with_its_facts_and_its_error() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        record = logging.makeLogRecord(
            {
                "name": "scheduler",
                "levelname": "INFO",
                "msg": "planned %s",
                "args": ("it",),
                "resizes": 2,
                "key": ("a", "b"),
                "why": "für 🙂",
                "created": 0.0,
                "exc_info": sys.exc_info(),
            }
        )
    text = logs.JsonLines().format(record)
    line = json.loads(text)
    assert "\n" not in text
    assert (line["message"], line["resizes"], line["key"], line["why"]) == (
        "planned it",
        2,
        ["a", "b"],
        "für 🙂",
    )
    assert (line["level"], line["from"], line["time"]) == (
        "INFO",
        "scheduler",
        "1970-01-01T00:00:00.000000Z",
    )
    assert "ValueError: boom" in line["error"]
    assert not {"pathname", "args", "exc_info", "msecs"} & line.keys()


def test_after_setup_every_logger_writes_to_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before = root.handlers[:]
    level = root.level
    try:
        root.handlers = []
        logs.setup("INFO")
        logging.getLogger("any").info("a message", extra={"fact": 1})
        assert json.loads(capsys.readouterr().out)["fact"] == 1
    finally:
        root.handlers = before
        root.level = level
