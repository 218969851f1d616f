"""The condition WithinBudget: what was used, of what, and what follows."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from cede.api import names
from cede.api.budget import Budget, MonthUse
from cede.api.objects import Json, condition
from cede.api.reasons import BudgetReason
from quota_controller.desired.budgets import BudgetUse
from quota_controller.desired.plan import make_plan
from quota_controller.status.allocation import allocation_statuses
from quota_controller.status.budget import budget_verdict
from tests.builders.quotas import allocation, snapshot

NOTE = MonthUse("2026-11", "2026-11-20T12:00:00Z")
OLD = "the ledger reports nothing newer"


def use(
    hours: str,
    soft: int | None = None,
    hard: int | None = None,
    *,
    note: MonthUse | None = NOTE,
    is_current: bool = True,
) -> BudgetUse:
    budget = Budget(softHours=soft, hardHours=hard)
    return BudgetUse(budget, "2026-11", Decimal(hours), note, is_current)


@pytest.mark.parametrize(
    ("known", "status", "reason", "part"),
    [
        pytest.param(
            use("83.9", 100, 200),
            True,
            BudgetReason.WITHIN_BUDGET,
            "83 % of its budget of 100",
            id="hours are left",
        ),
        pytest.param(
            use("1", hard=100),
            True,
            BudgetReason.WITHIN_BUDGET,
            "1 % of its budget of 100",
            id="with a hard budget only",
        ),
        pytest.param(
            use("104", 100, 200),
            False,
            BudgetReason.SOFT_BUDGET_USED,
            "104 % of its soft budget of 100 accelerator-hours for 2026-11; from 200 "
            "accelerator-hours on it borrows nothing new",
            id="the soft one is used",
        ),
        pytest.param(
            use("104", 100),
            False,
            BudgetReason.SOFT_BUDGET_USED,
            "nothing is refused",
            id="without a hard one nothing is refused",
        ),
        pytest.param(
            use("200", 100, 200),
            False,
            BudgetReason.HARD_BUDGET_USED,
            "its running jobs continue",
            id="the hard one is used",
        ),
        pytest.param(
            use("0", hard=0, note=None, is_current=False),
            False,
            BudgetReason.HARD_BUDGET_USED,
            "has used all of its hard budget of 0",
            id="nothing may be borrowed",
        ),
        pytest.param(
            use("0", 100, note=None, is_current=False),
            None,
            BudgetReason.NO_FIGURE,
            "install the ledger",
            id="there is no ledger",
        ),
        pytest.param(
            use("83", 100, is_current=False),
            None,
            BudgetReason.FIGURE_OLD,
            "83 % of its budget of 100 accelerator-hours for 2026-11, as of 2026-11-20T12:00:00Z",
            id="the ledger is down",
        ),
        pytest.param(
            use("200", 100, 200, is_current=False),
            False,
            BudgetReason.HARD_BUDGET_USED,
            "it borrows nothing new",
            id="hours only grow, so what is known counts",
        ),
    ],
)
def test_what_the_condition_says(
    known: BudgetUse, status: bool | None, reason: BudgetReason, part: str
) -> None:
    verdict = budget_verdict("vision", known)
    assert (verdict.status, verdict.reason) == (status, reason)
    assert part in verdict.message
    assert "team vision" in verdict.message


def test_hours_that_nobody_saw_are_named() -> None:
    gaps = replace(NOTE, not_recorded_hours=Decimal("2.5"))
    message = budget_verdict("vision", use("1", 100, note=gaps)).message
    assert message.endswith("for 2026-11, and 2 hours of the month are not recorded")
    last_month = replace(gaps, month="2026-10")
    assert "not recorded" not in budget_verdict("vision", use("0", 100, note=last_month)).message


def test_the_message_changes_by_whole_percents_only() -> None:
    """Each change of it is a write for every team with a budget."""
    messages = {budget_verdict("vision", use(str(hours), 5000)).message for hours in range(5000)}
    assert len(messages) == 100


def test_the_condition_goes_with_the_budget() -> None:
    def reported(**spec: Any) -> Json | None:
        current = snapshot([allocation(**spec)])
        team = current.allocations[0]
        team.status.conditions = [
            {"type": names.WITHIN_BUDGET, "status": "Unknown", "reason": "Old"}
        ]
        status = allocation_statuses(make_plan(current), current, {}, 0.0)["vision"]
        return condition(status.conditions, names.WITHIN_BUDGET)

    with_budget = reported(budget={"softHours": 1})
    assert with_budget is not None
    assert with_budget["reason"] == BudgetReason.NO_FIGURE
    assert reported() is None
