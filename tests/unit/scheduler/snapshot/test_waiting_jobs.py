"""Which elastic Jobs wait with more pods than they need to start."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.kueue import Job
from scheduler.snapshot.waiting_jobs import WaitingJob, read_waiting
from tests.builders.kueue_objects import job
from tests.builders.scheduler import pending

GPT = WaitingJob(("research", "gpt"), "job-uid", "3", 2)


def suspended(parallelism: int = 5, annotations: dict[str, str] | None = None) -> Job:
    elastic = job(parallelism, annotations)
    return replace(elastic, spec=replace(elastic.spec, suspend=True))


def test_a_suspended_job_that_had_grown_is_found() -> None:
    assert read_waiting([suspended()], [pending("gpt", job_uid="job-uid")]) == (GPT,)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(job(5), id="it runs"),
        pytest.param(suspended(2), id="at its smallest size"),
        pytest.param(suspended(annotations={names.SIZES: "many"}), id="sizes that no one can read"),
        pytest.param(suspended(annotations={names.ELASTIC_JOB: "false"}), id="not elastic"),
    ],
)
def test_another_job_is_not(other: Job) -> None:
    assert read_waiting([other], [pending("gpt", job_uid="job-uid")]) == ()


def test_a_job_whose_workload_has_quota_is_not() -> None:
    """Kueue has admitted it, and is about to start it."""
    assert read_waiting([suspended()], [pending("other", job_uid="another-uid")]) == ()


def test_a_scale_up_is_not() -> None:
    slice_ = pending("gpt", job_uid="job-uid", is_scale_up=True)
    assert read_waiting([suspended()], [slice_]) == ()
