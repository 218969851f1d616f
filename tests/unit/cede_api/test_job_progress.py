"""The note of how far jobs are."""

import msgspec
import pytest

from cede.api import names
from cede.api.job_progress import (
    MAX_JOBS,
    MAX_REASON,
    NOTHING,
    JobProgress,
    Progress,
    ProgressConfigMap,
    parse,
    read,
)

LONGEST = JobProgress(
    answered=2**53,
    step=2**53,
    saved_step=2**53,
    saved=2**53,
    loss=-1.7976931348623157e308,
    save_failure="\N{MATHEMATICAL BOLD CAPITAL A}" * MAX_REASON,
    silent_since=2**53,
    silence="\N{MATHEMATICAL BOLD CAPITAL A}" * MAX_REASON,
)
CONFIG_MAP_BYTES = 1 << 20


def test_what_was_written_is_read_again() -> None:
    progress = Progress({"uid-a": LONGEST, "uid-b": JobProgress(answered=5, step=3)}, left_out=2)
    assert parse(progress.text()) == progress
    config_map = {"metadata": {"name": names.PROGRESS}, "data": {"jobs": progress.text()}}
    assert read(msgspec.convert(config_map, ProgressConfigMap)) == progress


def test_what_is_not_known_takes_no_room() -> None:
    text = Progress({"uid-b": JobProgress(answered=5, step=3)}).text()
    assert text == '{"jobs":{"uid-b":{"answered":5,"step":3}}}'


def test_as_many_jobs_as_are_noted_fit_into_a_config_map() -> None:
    uids = (f"9d5a3754-0000-4000-8000-{number:012}" for number in range(MAX_JOBS))
    text = Progress(dict.fromkeys(uids, LONGEST), left_out=9_500).text()
    assert len(text.encode()) < CONFIG_MAP_BYTES


def test_a_note_that_is_too_small_says_of_how_many_jobs_it_knows_nothing() -> None:
    assert Progress().left_out_sentence("research") == ""
    assert Progress(left_out=37).left_out_sentence("research") == (
        "namespace research: how far 37 jobs are is not known, because ConfigMap cede-progress "
        "holds 500: jobs that do not answer, and those that answered last"
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("step 12", id="no JSON"),
        pytest.param("[" * 100_000, id="nested"),
        pytest.param('{"jobs": {"uid": {"step": -1}}}', id="a step below 0"),
        pytest.param('{"jobs": {"uid": {"answered": 1e99}}}', id="a time that is none"),
        pytest.param('{"jobs": {"uid": {"loss": 1e999}}}', id="a loss that is none"),
        pytest.param('{"jobs": {"uid": {"silence": "%s"}}}' % ("x" * 201), id="a long reason"),
        pytest.param('{"jobs": [{"step": 1}]}', id="a list"),
    ],
)
def test_what_nobody_of_us_wrote_tells_nothing(text: str) -> None:
    assert parse(text) is None


def test_fields_of_a_newer_scheduler_are_ignored() -> None:
    assert parse('{"jobs": {"uid": {"step": 1, "speed": 2}}, "newer": 3}') == Progress(
        {"uid": JobProgress(step=1)}
    )


def test_a_config_map_without_the_note_knows_no_job() -> None:
    assert read(ProgressConfigMap()) == NOTHING
