"""Fixtures of the tests of real processes. A module names its training script `SCRIPT`.

A script that asks the environment for its strategy is also named as `UNDISTURBED`, with the
strategy that it has alone; its tests are given the others as parameters of `job`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.harness.evaluating_job import Alone
from tests.harness.local_job import Job, undisturbed_losses


@pytest.fixture
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    """A job of the module's script, not started; afterwards none of its processes is left."""
    job = Job(tmp_path, request.module.SCRIPT)
    if strategy := getattr(request, "param", ""):
        job.env["STRATEGY"] = strategy
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's script runs without an agent."""
    return tmp_path_factory.mktemp("undisturbed")


@pytest.fixture(scope="module")
def undisturbed(
    request: pytest.FixtureRequest, undisturbed_directory: Path
) -> Callable[[int], list[float]]:
    """The losses of the first steps of the module's script, run without an agent."""
    script = getattr(request.module, "UNDISTURBED", request.module.SCRIPT)
    return partial(undisturbed_losses, undisturbed_directory, script, [])


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """What evaluations give in one process."""
    return Alone(tmp_path_factory.mktemp("alone"))
