"""What every test of elastic_runtime needs."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _no_lines_of_earlier_tests(request: pytest.FixtureRequest) -> None:
    """A loop that was left by `break` is reported when its model is collected, maybe much later."""
    if "caplog" in request.fixturenames:
        gc.collect()
        request.getfixturevalue("caplog").clear()
