"""How far a job is, in words."""

import pytest

from cede.api.cession_status import TargetStatus
from cede.api.job_progress import JobProgress
from cede.api.objects import rfc3339
from cede.report.progress import (
    UNKNOWN,
    Reported,
    as_noted,
    cells,
    newer,
    sentences,
    when_it_ceded,
)

NOW = 1_700_000_000
TRAINS = JobProgress(answered=NOW - 4, step=1200, loss=2.345678, saved_step=1180, saved=NOW - 300)


@pytest.mark.parametrize(
    ("noted", "row", "lines"),
    [
        pytest.param(
            TRAINS,
            ["1200", "2.346", "1180, 5 min ago", "4 s ago"],
            [
                "Its runtime reported step 1200 with loss 2.346, 4 s ago; its newest save is of "
                "step 1180, 5 min ago."
            ],
            id="it trains",
        ),
        pytest.param(
            JobProgress(answered=NOW - 180, step=7),
            ["7", "", "0", "3 min ago"],
            ["Its runtime reported step 7, 3 min ago; it has reported no save."],
            id="without a loss and a save",
        ),
        pytest.param(
            JobProgress(answered=NOW - 4),
            ["", "", "", "4 s ago"],
            ["Its runtime answered 4 s ago, and has reported no step."],
            id="a command under --signal",
        ),
        pytest.param(
            JobProgress(answered=NOW, step=7, saved_step=5, save_failure="no space left."),
            ["7", "", "5", "0 s ago"],
            [
                "Its runtime reported step 7, 0 s ago; its newest save is of step 5.",
                "Its last save failed: no space left.",
            ],
            id="its last save failed",
        ),
        pytest.param(
            JobProgress(
                answered=NOW - 730,
                step=7,
                silent_since=NOW - 720,
                silence="none of its pods answers",
            ),
            ["7", "", "0", "silent for 12 min"],
            [
                "Its runtime reported step 7, 12 min ago; it has reported no save.",
                "Its runtime has not answered the scheduler for 12 min: none of its pods answers.",
            ],
            id="it does not answer any more",
        ),
        pytest.param(
            JobProgress(silent_since=NOW - 60, silence="none of its pods answers"),
            ["", "", "", "silent for 60 s"],
            ["Its runtime has not answered the scheduler for 60 s: none of its pods answers."],
            id="it never answered",
        ),
        pytest.param(
            JobProgress(silent_since=NOW - 5), ["", "", "", ""], [], id="it may still answer"
        ),
        pytest.param(JobProgress(), ["", "", "", ""], [], id="nothing is known"),
    ],
)
def test_what_is_noted_is_shown_with_its_age(
    noted: JobProgress, row: list[str], lines: list[str]
) -> None:
    reported = as_noted(noted)
    assert list(cells(reported, NOW)) == row
    assert list(sentences(reported, NOW)) == lines


def test_a_time_that_a_member_wrote_and_that_is_none_is_not_known() -> None:
    reported = as_noted(JobProgress(answered=2**53, step=1, saved_step=1, saved=2**53))
    assert (reported.step, reported.reported, reported.saved) == (1, "", "")


def test_what_a_job_reported_when_it_ceded_counts_while_nothing_newer_is_noted() -> None:
    ceded = when_it_ceded(
        TargetStatus(uid="u", step=120, durableStep=100, cededTime=rfc3339(NOW - 60))
    )
    assert ceded == Reported(step=120, saved_step=100, reported=rfc3339(NOW - 60))
    assert newer(UNKNOWN, ceded) == ceded
    assert newer(as_noted(TRAINS), ceded) == as_noted(TRAINS)
    old = as_noted(JobProgress(answered=NOW - 900, step=3))
    assert newer(old, ceded) == ceded
    silent = Reported(silence="none of its pods answers", silent_since=rfc3339(NOW - 60))
    assert newer(silent, ceded) == silent
