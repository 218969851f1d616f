"""Sentences without their durations."""

import pytest

from cede.report.ages import without_age


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("It ceded 8 → 4 pods, 45 s ago.", "It ceded 8 → 4 pods, 12 min ago."),
        ("It waits for 3 h.", "It waits for 2 d."),
    ],
)
def test_a_sentence_is_equal_when_only_time_has_passed(earlier: str, later: str) -> None:
    assert without_age(earlier) == without_age(later)


def test_amounts_are_no_durations() -> None:
    assert without_age("It lacks 4 nvidia.com/gpu of 8 slots.") == (
        "It lacks 4 nvidia.com/gpu of 8 slots."
    )
