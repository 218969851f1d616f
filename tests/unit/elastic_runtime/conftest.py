"""What every test of elastic_runtime needs."""

import gc

import pytest

from elastic_runtime.json_logging import LOG, FactsInMessage


@pytest.fixture(autouse=True)
def _no_lines_of_earlier_tests(request: pytest.FixtureRequest) -> None:
    """A loop that was left by `break` is reported when its model is collected, maybe much later."""
    if "caplog" in request.fixturenames:
        gc.collect()
        request.getfixturevalue("caplog").clear()


@pytest.fixture(autouse=True)
def _no_handler_of_earlier_tests() -> None:
    """A session adds one to the runtime's logger, which changes messages."""
    for handler in LOG.handlers[:]:
        if isinstance(handler, FactsInMessage):
            LOG.removeHandler(handler)
