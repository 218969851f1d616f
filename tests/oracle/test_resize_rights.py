"""A scheduler that somebody took over resizes only what the scheduler itself does."""

import pytest

from cede.api import names
from tests.builders.requests import SCHEDULER
from tests.harness.admission import Judge
from tests.oracle.test_scheduler_rights import job

pytestmark = pytest.mark.slow


def test_the_scheduler_resizes_no_job_that_kueue_does_not_resize(judge: Judge) -> None:
    old, new, noted = job(), job(), job()
    for made in (old, new, noted):
        del made["metadata"]["annotations"][names.ELASTIC_JOB]
    new["spec"]["parallelism"] = 2
    noted["metadata"]["annotations"][names.SHRUNK_AT] = "now"
    assert judge(new, SCHEDULER, old=old)
    assert judge(noted, SCHEDULER, old=old) == [], "its notes are no size"


@pytest.mark.parametrize("counts", [(0, 0), (0, 4), (4, 0)])
def test_the_scheduler_takes_no_job_all_its_pods(judge: Judge, counts: tuple[int, int]) -> None:
    """A Job of 0 completions is complete and never runs again."""
    new = job()
    new["spec"] |= {"parallelism": counts[0], "completions": counts[1]}
    assert judge(new, SCHEDULER, old=job())
