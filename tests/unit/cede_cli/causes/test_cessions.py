"""A Cession in the words of a report."""

from cede.causes.cessions import CessionSummary, summarize
from tests.builders.scheduler import NOW, cession


def test_a_summary_names_the_preemptor_and_the_targets_with_their_sizes() -> None:
    summary = summarize(cession("Asked", message="gpt was asked"), NOW + 7.4)
    assert summary == CessionSummary(
        name="c-1",
        phase="Asked",
        preemptor="vision/claim",
        targets="research/gpt 8 → 4",
        seconds="",
        age_s=7,
        why="because",
        message="gpt was asked",
    )


def test_an_age_is_never_negative() -> None:
    assert summarize(cession(), NOW - 100).age_s == 0
