"""A job that is evicted while it misses pod 0 saves its last step before it ends."""

import time
from collections.abc import Callable

import pytest

from elastic_runtime.contract import EXIT_LEFT_ON_REQUEST
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once
from tests.marks import LONG

pytestmark = pytest.mark.processes
SCRIPT = local_job.SCRIPT
# Of the pods of a job in tests/harness.
GRACE_S = 20


def evict(job: Job, *lost: int) -> None:
    """As Kubernetes does: SIGTERM to all pods at once. They leave within their grace period."""
    for index in lost:
        del job.pods[index]
    began = time.monotonic()
    assert set(job.stop()) == {EXIT_LEFT_ON_REQUEST}, job.output()
    assert time.monotonic() - began < GRACE_S - 5, job.output()


def check_nothing_is_repeated(job: Job, undisturbed: Callable[[int], list[float]]) -> None:
    """When the job comes back, it continues after the last step that it ever did."""
    job.start(0, 1, 2, 3)
    job.trains(4)
    job.stop()
    check_exactly_once(job, undisturbed)


@LONG
def test_an_evicted_job_whose_pod_0_is_missing_saves_its_last_step(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1, 2, 3)
    job.trains(4)
    job.kill_pod(0)
    job.trains(3)
    evict(job, 0)
    check_nothing_is_repeated(job, undisturbed)


@LONG
def test_an_evicted_job_that_has_just_lost_pod_0_saves_its_last_step(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """The members choose another coordinator while they terminate."""
    job.start(0, 1, 2, 3)
    job.trains(4)
    job.kill_pod(0)
    evict(job, 0)
    check_nothing_is_repeated(job, undisturbed)


def test_an_evicted_job_that_has_lost_half_of_its_pods_with_the_coordinator_saves_its_last_step(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    """Too few are left to choose another coordinator."""
    job.start(0, 1, 2, 3)
    job.trains(4)
    job.kill_pod(0)
    job.kill_pod(1)
    evict(job, 0, 1)
    check_nothing_is_repeated(job, undisturbed)
