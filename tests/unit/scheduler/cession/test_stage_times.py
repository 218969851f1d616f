"""Stages count in the time in which the present scheduler led."""

import pytest

from cede.api.objects import rfc3339
from scheduler.cession.stage_times import led_s, once


@pytest.mark.parametrize(
    ("since", "led_since", "seconds"),
    [
        pytest.param(900, 500, 100, id="recorded by this leader"),
        pytest.param(1000, 500, 0, id="recorded now"),
        pytest.param(400, 990, 10, id="recorded before this leader"),
        pytest.param(4600, 990, 10, id="recorded by a clock that was ahead"),
        pytest.param(400, 1000, 0, id="this leader has just started"),
        pytest.param(400, 0, 600, id="no leader, as in a dump"),
    ],
)
def test_only_time_in_which_we_led_counts(since: float, led_since: float, seconds: float) -> None:
    assert led_s(rfc3339(since, micro=True), led_since, 1000) == seconds


def test_a_stage_that_has_not_begun_has_no_time() -> None:
    assert led_s("", 0, 1000) == 0


def test_a_time_is_recorded_once() -> None:
    assert once("before", 1000) == "before"
    assert once("", 0.5) == "1970-01-01T00:00:00.500000Z"
