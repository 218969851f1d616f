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
    # the part of `hours` that the status kept, whatever became of the note
    kept_hours: int = 0

    @property
    def is_soft_used(self) -> bool:
        return self.budget.softHours is not None and self.hours >= self.budget.softHours

    @property
    def is_hard_used(self) -> bool:
        """Then the team borrows nothing new."""
        return self.budget.hardHours is not None and self.hours >= self.budget.hardHours

    @property
    def to_keep(self) -> dict[str, int]:
        """For the status: what is used stays used. Hours would change it once a minute."""
        soft, hard = self.budget.softHours or 0, self.budget.hardHours or 0
        hours = max(
            self.kept_hours, soft if self.is_soft_used else 0, hard if self.is_hard_used else 0
        )
        return {self.month: hours} if hours else {}


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
        kept = allocation.status.budgetUsedHours.get(month, 0)
        used = note.used.get(name, {}) if note and note.month == month else {}
        hours = max(_hours(used, parts), Decimal(kept))
        is_current = note is not None and abs(now - unix(note.until)) <= MAX_AGE_S
        uses[name] = BudgetUse(budget, month, hours, note, is_current, kept)
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
