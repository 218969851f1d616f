"""When `cede explain` says that a job starts, against when it does in random worlds."""

import pytest

from cede.api.wait_reasons import WaitReason
from tests.harness.forecasts import ADMISSION_S, HOLDS_IN, Forecast, judged_in

SEEDS = range(6)
"""More of them: `python -m tests.harness.forecasts 0 200`, as in make test-long."""
LEAST = 12


def test_the_range_for_when_holds_in_four_of_five_cases() -> None:
    judged = judged_in(SEEDS)
    assert len(judged) >= LEAST, "too few estimates to judge"
    reasons = {forecast.reason for forecast, _ in judged}
    assert {
        WaitReason.CESSION_ASKED,
        WaitReason.OWN_TEAM_USES_QUOTA,
        WaitReason.LENT_QUOTA_IN_USE,
        WaitReason.NO_IDLE_CAPACITY,
    } <= reasons
    broken = [forecast for forecast, holds in judged if not holds]
    assert 1 - len(broken) / len(judged) >= HOLDS_IN, broken


@pytest.mark.parametrize(
    ("earliest", "latest", "started", "holds"),
    [
        (100.0, 200.0, 150.0, True),
        (100.0, 200.0, 90.0, False),
        (100.0, 200.0, 200.0 + ADMISSION_S + 1, False),
        (0.0, 200.0, 1.0, True),
        (100.0, 0.0, 9999.0, True),
    ],
    ids=["between", "too soon", "too late", "no earliest time", "no latest time"],
)
def test_a_job_starts_within_the_range(
    earliest: float, latest: float, started: float, holds: bool
) -> None:
    assert Forecast(WaitReason.MIN_RUNTIME, earliest, latest).holds(started) == holds
