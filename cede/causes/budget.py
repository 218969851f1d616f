"""PURE. A team that borrows nothing new because its hard budget of the month is used."""

from cede.api import names
from cede.api.objects import condition
from cede.api.reasons import BudgetReason
from cede.api.wait_reasons import WaitReason
from cede.causes.facts import Cause, Shortage
from cede.causes.index import Index


def budget_used(
    queue_name: str, facts: str, shortage: Shortage | None, index: Index
) -> Cause | None:
    """The cause that follows these facts, if the hard budget of the queue's team is used. A team
    that never borrows waits for its own quota."""
    allocation = index.allocations.get(queue_name)
    if allocation is None or allocation.spec.sharing.strategy != "LendAndBorrow":
        return None
    budget = condition(allocation.status.conditions, names.WITHIN_BUDGET) or {}
    if budget.get("reason") != BudgetReason.HARD_BUDGET_USED:
        return None
    # what follows is for admins
    used = str(budget.get("message", "")).partition(":")[0]
    return Cause(
        WaitReason.BUDGET_USED,
        f"{facts}. It borrows nothing new: {used}.",
        "jobs of the team end, the month ends, or an admin raises the budget",
        shortage,
    )
