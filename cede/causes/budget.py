"""PURE. A team that borrows nothing new because its hard budget of the month is used."""

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
    if allocation.used_budget is None:
        return None
    # what follows is for admins
    used = str(allocation.used_budget.get("message", "")).partition(":")[0]
    return Cause(
        WaitReason.BUDGET_USED,
        f"{facts}. It borrows nothing new: {used}.",
        "jobs of the team end, the month ends, or an admin raises the budget",
        shortage,
    )
