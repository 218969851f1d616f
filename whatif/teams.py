"""PURE. What each team owns, uses, lends and borrows, before and after."""

from collections.abc import Sequence

from cede.api.resources import Quota
from quota_controller.desired.plan import Plan
from quota_controller.status.allocation import column_text
from whatif.answer import Figures, TeamAnswer
from whatif.quota import Planned


def compare_teams(before: Planned, after: Planned) -> Sequence[TeamAnswer]:
    """Of all teams, by name."""
    names = sorted(before.plan.owned.keys() | after.plan.owned.keys())
    return [
        TeamAnswer(name, _figures(before.plan, name), _figures(after.plan, name)) for name in names
    ]


def _figures(plan: Plan, name: str) -> Figures | None:
    if name not in plan.owned:
        return None

    def text(quota: Quota) -> str:
        return column_text(+quota, plan.capacities)

    return Figures(
        owns=text(plan.grants.usable.get(name, Quota())),
        uses=text(plan.usage.used_by(name)),
        lends=text(plan.usage.lent_by(name)),
        borrows=text(plan.usage.borrowed_by(name)),
        available=text(plan.available.get(name, Quota())),
    )
