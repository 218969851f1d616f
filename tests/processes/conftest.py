"""Fixtures of the tests of real processes. A module names its training script `SCRIPT`."""

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
    yield job
    job.kill()


@pytest.fixture(scope="module")
def undisturbed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], list[float]]:
    """The losses of the first steps of the module's script, run without an agent."""
    directory = tmp_path_factory.mktemp("undisturbed")
    return partial(undisturbed_losses, directory, request.module.SCRIPT, [])


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """What evaluations give in one process."""
    return Alone(tmp_path_factory.mktemp("alone"))
