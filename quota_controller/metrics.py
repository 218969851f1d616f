"""The quota_controller's metrics for Prometheus, as of its last pass.

A replica that does not lead any more shows what it last knew: `cede_leading` tells them apart.
"""

from prometheus_client import Gauge

from cede.api.resources import Quota
from quota_controller.desired.plan import Plan, Snapshot

SCHEDULER_LEADS = Gauge(
    "cede_scheduler_leads", "1 while a scheduler leads and finishes passes; 0: Kueue preempts."
)
KUEUE_CONFIGURED = Gauge(
    "cede_kueue_configured",
    "0 while Kueue's settings are known not to be as the ClusterPolicy needs them.",
)
# without a policy nothing is known to be wrong
KUEUE_CONFIGURED.set(1)
BUDGET_HOURS = Gauge(
    "cede_budget_hours",
    "Budget of a team, in accelerator-hours a month, by limit: soft or hard.",
    ["team", "limit"],
)
BUDGET_USED_HOURS = Gauge(
    "cede_budget_used_hours",
    "Accelerator-hours of this month that the ledger knows a team with a budget to have used.",
    ["team"],
)
LENT = Gauge(
    "cede_lent_quota",
    "The part of a team's quota that other teams use, as the status of its allocation has it, in "
    "accelerators, CPUs or bytes.",
    ["queue", "resource"],
)
TEAM = Gauge(
    "cede_team_info", "1: the namespace of a team, by its queue.", ["queue", "team_namespace"]
)


def show(snapshot: Snapshot, plan: Plan) -> None:
    """Only teams and budgets that there are now."""
    _show_budgets(plan)
    # without a policy there are no figures to compute: the last ones stay, as in the statuses
    if snapshot.policy is None:
        return
    LENT.clear()
    TEAM.clear()
    for allocation in snapshot.allocations:
        queue = allocation.metadata.name
        owned = plan.owned.get(queue, Quota())
        lent = plan.usage.lent_by(queue)
        for resource in {resource for _, resource in owned}:
            LENT.labels(queue, resource).set(_amount_of(resource, lent))
        namespace = plan.namespaces.get(queue, "")
        if namespace:
            TEAM.labels(queue, namespace).set(1)


def _amount_of(resource: str, quota: Quota) -> float:
    """Of all types, in the unit that Kueue's metrics have."""
    amount = sum(value for (_, name), value in quota.items() if name == resource)
    return amount / 1000 if resource == "cpu" else amount


def _show_budgets(plan: Plan) -> None:
    for gauge in (BUDGET_HOURS, BUDGET_USED_HOURS):
        gauge.clear()
    for team, use in plan.budgets.items():
        if use.note:
            BUDGET_USED_HOURS.labels(team).set(float(use.hours))
        limits = {"soft": use.budget.softHours, "hard": use.budget.hardHours}
        for limit, hours in limits.items():
            if hours is not None:
                BUDGET_HOURS.labels(team, limit).set(hours)
