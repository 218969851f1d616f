"""The runtime's log is a JSON object a line, or text, and stands nowhere twice."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from elastic_runtime.json_logging import facts_of, log_for_people, log_to


class Kept(logging.Handler):
    """A handler of a script, which reads the records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """The runtime's logger without handlers; restored afterwards."""
    logger = logging.getLogger("elastic_runtime")
    handlers = logger.handlers[:]
    level = logger.level
    propagate = logger.propagate
    logger.handlers.clear()
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logger.propagate = propagate


def test_line_is_written_once_and_not_again_by_the_scripts_handlers(
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
    assert caplog.records == []


def test_without_an_agent_it_is_text_with_its_facts(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    stream = io.StringIO()
    log_for_people(stream)
    log.info("saved", extra={"step": 5, "path": "save/step-5"})
    assert stream.getvalue() == "elastic_runtime: saved (step 5, path save/step-5)\n"


def test_without_an_agent_a_scripts_own_handlers_are_enough_and_show_the_facts_once(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_script = io.StringIO()
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logging.basicConfig(stream=of_script, format="%(levelname)s %(message)s")
    stream = io.StringIO()
    for _ in ("one session", "another one"):
        log_for_people(stream)
    log.getChild("checkpointing").warning("saved %s", "5%", extra={"step": 5})
    log.warning("not saved")
    assert of_script.getvalue() == "WARNING saved 5% (step 5)\nWARNING not saved\n"
    assert stream.getvalue() == ""


def test_for_a_scripts_own_handlers_the_text_is_the_same_for_all_values(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_script = Kept()
    monkeypatch.setattr(logging.getLogger(), "handlers", [of_script])
    log_for_people(io.StringIO())
    log.warning("saved 100%", extra={"step": 5})
    log.warning("saved 100%", extra={"step": 6})
    log.warning("%(what)s was lost", {"what": "pod 1"}, extra={"step": 7})
    assert {record.msg for record in of_script.records[:2]} == {"saved 100%% (step %s)"}
    assert [record.getMessage() for record in of_script.records] == [
        "saved 100% (step 5)",
        "saved 100% (step 6)",
        "pod 1 was lost (step 7)",
    ]


def test_a_line_that_cannot_be_written_ends_no_training(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [Kept()])
    log_for_people(io.StringIO())
    log.warning("saved %d", "no number", extra={"step": 5})
    log.warning("%d %d", {"what": 1}, extra={"step": 5})
    assert "--- Logging error ---" in capsys.readouterr().err


def test_what_a_factory_of_the_script_adds_to_each_record_is_no_fact(log: logging.Logger) -> None:
    made = logging.getLogRecordFactory()

    def traced(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = made(*args, **kwargs)
        record.trace = 0
        return record

    logging.setLogRecordFactory(traced)
    try:
        record = logging.makeLogRecord({"step": 5})
        assert facts_of(record) == {"step": 5}
    finally:
        logging.setLogRecordFactory(made)


def test_exception_is_one_field(log: logging.Logger) -> None:
    stream = io.StringIO()
    log_to(stream)
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("it failed")
    (text,) = stream.getvalue().splitlines()
    assert "KeyError: 'x'" in json.loads(text)["error"]
