"""PURE. The condition WithinBudget of a ComputeAllocation: whether hours of its budget are left."""

from cede.api import names
from cede.api.reasons import BudgetReason
from cede.api.verdict import Verdict
from quota_controller.desired.budgets import BudgetUse


def budget_verdict(team: str, use: BudgetUse) -> Verdict:
    """What is known to be used counts even if the ledger is down: hours only grow."""
    soft, hard = use.budget.softHours, use.budget.hardHours
    if use.is_hard_used and hard is not None:
        message = (
            f"team {team} has used {_percent(use, hard)} of its hard budget of {hard} "
            f"accelerator-hours for {use.month}: it borrows nothing new until the month ends "
            "(UTC), and its running jobs continue; to let it borrow, raise spec.budget.hardHours"
        )
        return Verdict(False, BudgetReason.HARD_BUDGET_USED, message)
    if use.is_soft_used and soft is not None:
        message = (
            f"team {team} has used {_percent(use, soft)} of its soft budget of {soft} "
            f"accelerator-hours for {use.month}{_unseen(use)}; {_rest(hard)}: run less, or raise "
            "spec.budget"
        )
        return Verdict(False, BudgetReason.SOFT_BUDGET_USED, message)
    if use.note is None:
        message = (
            f"no ledger reports what team {team} has used, so its budget is not enforced: install "
            f"the ledger, or see the log of Deployment {names.LEDGER} in namespace "
            f"{names.SYSTEM_NAMESPACE}"
        )
        return Verdict(None, BudgetReason.NO_FIGURE, message)
    limit = soft if soft is not None else hard or 0
    known = (
        f"team {team} has used {_percent(use, limit)} of its budget of {limit} accelerator-hours "
        f"for {use.month}{_unseen(use)}"
    )
    if not use.is_current:
        message = (
            f"{known}, as of {use.note.until}; the ledger reports nothing newer, so more may be "
            f"used: see the log of Deployment {names.LEDGER} in namespace {names.SYSTEM_NAMESPACE}"
        )
        return Verdict(None, BudgetReason.FIGURE_OLD, message)
    return Verdict(True, BudgetReason.WITHIN_BUDGET, known)


def _percent(use: BudgetUse, limit: int) -> str:
    """Rounded down. Hours would change the status of every team with a budget once a minute."""
    return f"{int(100 * use.hours / limit)} %" if limit else "all"


def _unseen(use: BudgetUse) -> str:
    hours = int(use.note.not_recorded_hours) if use.note and use.note.month == use.month else 0
    return f", and {hours} hours of the month are not recorded" if hours else ""


def _rest(hard: int | None) -> str:
    if hard is None:
        return "nothing is refused"
    return f"from {hard} accelerator-hours on it borrows nothing new"
