"""PURE. What teams have used of their budgets, and which of them borrow nothing new."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from cede.api.allocation import ComputeAllocation
from cede.api.budget import Budget, MonthUse, month_of
from cede.api.instance_type import InstanceType
from cede.api.objects import unix
from cede.api.resources import FlavorResource
from quota_controller.desired.capacity import slices

MAX_AGE_S = 900.0
"""The ledger notes what was used once a minute, and its books are up to 2.5 minutes behind."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What a team has used of its budget in a month: at least `hours`, because hours only grow."""

    budget: Budget
    month: str
    hours: Decimal = Decimal(0)
    # the ledger's note; None if there is none
    note: MonthUse | None = None
    # whether the note is of this moment, so that not much more than `hours` can be used
    is_current: bool = False

    @property
    def is_soft_used(self) -> bool:
        return self.budget.softHours is not None and self.hours >= self.budget.softHours

    @property
    def is_hard_used(self) -> bool:
        """Then the team borrows nothing new."""
        return self.budget.hardHours is not None and self.hours >= self.budget.hardHours


def budget_uses(
    allocations: Iterable[ComputeAllocation],
    note: MonthUse | None,
    types: Iterable[InstanceType],
    now: float,
) -> dict[str, BudgetUse]:
    """By allocation, of those that have a budget.

    The month is that of the later clock, the ledger's or ours: where they differ by a moment at the
    turn of a month, nobody pays for the month before.
    """
    parts = _parts(types)
    month = max(month_of(now), note.month if note else "")
    uses = {}
    for allocation in allocations:
        name, budget = allocation.metadata.name, allocation.spec.budget
        if budget is None:
            continue
        if note is None:
            uses[name] = BudgetUse(budget, month)
            continue
        used = note.used.get(name, {}) if note.month == month else {}
        is_current = abs(now - unix(note.until)) <= MAX_AGE_S
        uses[name] = BudgetUse(budget, month, _hours(used, parts), note, is_current)
    return uses


def _parts(types: Iterable[InstanceType]) -> dict[FlavorResource, Decimal]:
    """Which part of an accelerator a partition is."""
    parts = {}
    for type_ in types:
        whole = slices(type_, {type_.accelerator: 1})
        for resource in type_.partitions:
            parts[type_.name, resource] = Decimal(slices(type_, {resource: 1})) / whole
    return parts


def _hours(
    used: Mapping[str, Mapping[str, Decimal]], parts: Mapping[FlavorResource, Decimal]
) -> Decimal:
    """Hours of whole accelerators."""
    return sum(
        (
            hours * parts.get((type_name, resource), Decimal(1))
            for type_name, resources in used.items()
            for resource, hours in resources.items()
        ),
        start=Decimal(0),
    )
