"""Which sizes an elastic Job may get while the webhook does not answer."""

import pytest

from cede.api import names
from tests.builders.jobs import elastic_job, running_job
from tests.builders.requests import SCHEDULER
from tests.harness.admission import Judge
from webhook.admission import AdmissionRequest
from webhook.rules import complaints

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param("2-8", "8", True, id="no smaller one: others would give in its place"),
        pytest.param("2-8", "4-8", True, id="another smallest one"),
        pytest.param("2-8", "1-8", True, id="a smaller one"),
        pytest.param("2-8", "x", True, id="none that can be read"),
        pytest.param("2-8", "2-16", False, id="a larger one"),
        pytest.param("8,2,4", " 2 - 8 ", False, id="written in another way"),
        pytest.param("2-8/2", "2-8/2", False, id="the same"),
        pytest.param("x", "2-8", False, id="a cure"),
    ],
)
def test_the_smallest_size_stays(judge: Judge, before: str, after: str, refused: bool) -> None:
    old, new = running_job(elastic_job(), 8), running_job(elastic_job(), 8)
    old["metadata"]["annotations"][names.SIZES] = before
    new["metadata"]["annotations"][names.SIZES] = after
    assert bool(judge(new, old=old)) is refused
    if refused:
        assert complaints(AdmissionRequest(new, old)), "the webhook refuses it too"
        assert not [text for text in judge(new, SCHEDULER, old=old) if "smallest" in text]


def test_sizes_of_a_job_that_is_not_elastic_are_free(judge: Judge) -> None:
    """It was there before Cede was."""
    assert judge(elastic_job(sizes="4-8"), old=elastic_job(sizes="2-8")) == []
