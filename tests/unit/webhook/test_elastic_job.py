"""What an elastic Job is, and the size that its user wants."""

from copy import deepcopy

import pytest

from cede.api.objects import Json
from tests.builders.jobs import elastic_job, plain_job, running_job
from webhook.elastic_job import get_counts, get_desired_size, is_elastic, is_prepared

RUNNING = running_job(elastic_job(8, "2-8"), 4)


def changed(**spec: int) -> Json:
    job = deepcopy(RUNNING)
    job["spec"] |= spec
    return job


def test_a_job_with_sizes_is_elastic_and_prepared_after_our_defaults() -> None:
    assert not is_elastic(None)
    assert not is_elastic(plain_job())
    assert not is_elastic(elastic_job() | {"kind": "CronJob"})
    assert is_elastic(elastic_job())
    assert not is_prepared(elastic_job())
    assert is_prepared(RUNNING)


def test_counts_are_whole_numbers_or_none() -> None:
    assert get_counts(elastic_job(8)) == (8, 8)
    assert get_counts({"spec": {}}) == (1, None)
    assert get_counts({"spec": {"parallelism": True, "completions": "8"}}) == (None, None)


@pytest.mark.parametrize(
    ("job", "old", "desired_size"),
    [
        pytest.param(elastic_job(8), None, 8, id="new: both numbers"),
        pytest.param(elastic_job(8, completions=4), None, None, id="new: a contradiction"),
        pytest.param(RUNNING, None, 8, id="new, from the YAML of a live job: the noted size"),
        pytest.param(changed(), RUNNING, 8, id="nothing changed: the noted size"),
        pytest.param(changed(parallelism=6), RUNNING, 6, id="parallelism changed"),
        pytest.param(changed(completions=6), RUNNING, 6, id="completions changed"),
        pytest.param(changed(parallelism=6, completions=6), RUNNING, 6, id="both changed"),
        pytest.param(changed(parallelism=6, completions=7), RUNNING, None, id="a contradiction"),
        pytest.param(plain_job(size=4), plain_job(size=4), 4, id="nothing noted: parallelism"),
    ],
)
def test_the_desired_size(job: Json, old: Json | None, desired_size: int | None) -> None:
    assert get_desired_size(job, old) == desired_size
