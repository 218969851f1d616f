"""The runtime's log is a JSON object a line, or text, and stands nowhere twice."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from elastic_runtime.json_logging import log_for_people, log_to


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


def test_exception_is_one_field(log: logging.Logger) -> None:
    stream = io.StringIO()
    log_to(stream)
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("it failed")
    (text,) = stream.getvalue().splitlines()
    assert "KeyError: 'x'" in json.loads(text)["error"]
