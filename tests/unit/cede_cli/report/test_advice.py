"""Which advice the use of days gives, and when it gives none."""

from decimal import Decimal

import pytest

from cede.api import names
from cede.api.names import GPU
from cede.api.reasons import AdviceReason, BudgetReason
from cede.api.use_history import DayUse, UseHistory
from cede.report.advice import MIN_DAYS, Advice, advice_lines, advise
from tests.builders.reports import allocation

TEAMS = (allocation("vision"), allocation("research"))


def day(
    number: int,
    team: str = "vision",
    *,
    available: int = 192,
    used: int = 0,
    borrowed: int = 0,
    lent: int = 0,
) -> DayUse:
    amounts = map(Decimal, (available, used, borrowed, lent))
    return DayUse(f"2026-11-{number:02}", team, "p5", GPU, *amounts)


def advice(*days: DayUse) -> Advice:
    begin, end = "2026-11-01T00:00:00Z", "2026-11-11T00:00:00Z"
    return advise(UseHistory(begin, end, Decimal(2), days), TEAMS)


TEN = range(1, 11)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        pytest.param(
            [day(n, lent=192) for n in TEN], [AdviceReason.NEVER_USED], id="never used, all lent"
        ),
        pytest.param([day(n, used=n == 5) for n in TEN], [], id="used once"),
        pytest.param(
            [day(n, used=96, lent=96) for n in TEN],
            [AdviceReason.LENT_MOST_OF_THE_TIME],
            id="half of it is lent",
        ),
        pytest.param([day(n, used=97, lent=95) for n in TEN], [], id="less than half is lent"),
        pytest.param(
            [day(n, used=240, borrowed=48 * (n > 1)) for n in TEN],
            [AdviceReason.ALWAYS_BORROWS],
            id="borrows on 9 of 10 days",
        ),
        pytest.param([day(n, used=240, borrowed=48 * (n > 2)) for n in TEN], [], id="on 8 of 10"),
        pytest.param([day(n, used=200, borrowed=1) for n in TEN], [], id="borrows next to nothing"),
        pytest.param(
            [day(n, available=0, used=48, borrowed=48) for n in TEN],
            [AdviceReason.ALWAYS_BORROWS],
            id="owns nothing",
        ),
        pytest.param([day(n, "gone") for n in TEN], [], id="its allocation is gone"),
    ],
)
def test_what_the_days_suggest(days: list[DayUse], expected: list[AdviceReason]) -> None:
    assert [finding.reason for finding in advice(*days).findings] == expected


def test_a_short_history_is_no_ground_for_advice() -> None:
    short = advice(*(day(n) for n in range(1, MIN_DAYS)))
    assert (short.findings, short.too_short) == ((), ("vision",))
    enough = advice(*(day(n) for n in range(1, MIN_DAYS + 1)))
    assert (len(enough.findings), enough.too_short) == (1, ())


def test_the_advice_has_the_figures_and_the_period_that_it_rests_on() -> None:
    assert list(advice_lines(advice(*(day(n, lent=48) for n in TEN)))) == [
        "From 2026-11-01T00:00:00Z to 2026-11-11T00:00:00Z: 238 h are recorded, and 2 h are not",
        "",
        "TEAM    TYPE  RESOURCE        DAYS  HAD     USED  BORROWED  LENT",
        "vision  p5    nvidia.com/gpu  10    1920 h  0 h   0 h       480 h",
        "",
        "Advice",
        "  NeverUsed: vision had 1920 h of nvidia.com/gpu of p5, and used none on 10 days; 25 % of "
        "that was lent: lower its quota, or delete the allocation",
    ]


def test_budgets_that_are_used_are_shown_without_a_history() -> None:
    used = allocation("vision")
    used.status.conditions.append(
        {
            "type": names.WITHIN_BUDGET,
            "status": "False",
            "reason": BudgetReason.SOFT_BUDGET_USED,
            "message": "m",
        }
    )
    history = UseHistory("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z", Decimal(0))
    facts = advise(history, [used, allocation("research")])
    assert facts.budgets == ("SoftBudgetUsed: m",)
    assert list(advice_lines(facts))[-2:] == ["Budgets", "  SoftBudgetUsed: m"]


def test_whoever_may_not_list_allocations_gets_advice_about_all_teams() -> None:
    history = UseHistory(
        "2026-11-01T00:00:00Z", "2026-11-11T00:00:00Z", Decimal(0), tuple(map(day, TEN))
    )
    assert [finding.team for finding in advise(history, None).findings] == ["vision"]
