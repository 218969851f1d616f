"""What a budget refuses, and when: new borrowing only, by hours that only grow in a month."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation import ComputeAllocation
from cede.api.budget import Budget, MonthUse
from cede.api.names import GPU
from cede.api.objects import CLUSTER_QUEUES, Json, rfc3339, unix
from quota_controller.desired.budgets import MAX_AGE_S, BudgetUse, budget_uses
from quota_controller.desired.plan import Plan, Snapshot, make_plan
from tests.builders.quotas import MIG, ONE_SLICE, P5, THREE_SLICES, allocation, node, snapshot

NOW = unix("2026-11-20T12:00:00Z")
NEXT_MONTH = unix("2026-12-01T00:00:00Z")


def used(
    hours: str | int, team: str = "vision", until: float = NOW, month: str = "2026-11"
) -> MonthUse:
    return MonthUse(month, rfc3339(until), used={team: {"p5": {GPU: Decimal(hours)}}})


def use(note: MonthUse | None, now: float = NOW, **budget: int) -> BudgetUse:
    return budget_uses([allocation(budget=budget)], note, [P5], now)["vision"]


# --- what is used ---------------------------------------------------------------------------------
def test_an_allocation_without_a_budget_has_none() -> None:
    assert budget_uses([allocation()], used(9), [P5], NOW) == {}


@pytest.mark.parametrize(("hours", "is_used"), [("99.999999", False), ("100", True)])
def test_a_budget_is_used_when_all_of_its_hours_are(hours: str, is_used: bool) -> None:
    assert use(used(hours), hardHours=100).is_hard_used is is_used
    assert use(used(hours), softHours=100).is_soft_used is is_used


def test_hours_of_another_team_do_not_count() -> None:
    assert use(used(100, "research"), hardHours=100).hours == 0


def test_a_partition_counts_as_its_part_of_an_accelerator() -> None:
    hours = {GPU: Decimal(1), ONE_SLICE: Decimal(7), THREE_SLICES: Decimal(14)}
    note = MonthUse("2026-11", rfc3339(NOW), used={"vision": {"a100": hours}})
    uses = budget_uses([allocation(budget={"hardHours": 8})], note, [MIG], NOW)
    assert uses["vision"].hours == pytest.approx(Decimal(1 + 1 + 6))


# --- what is not known ----------------------------------------------------------------------------
def test_without_a_ledger_nothing_is_used_and_nothing_refused() -> None:
    unknown = use(None, softHours=1, hardHours=1)
    assert not unknown.is_soft_used
    assert not unknown.is_hard_used
    assert not unknown.is_current


def test_a_budget_of_no_hours_needs_no_ledger() -> None:
    assert use(None, hardHours=0).is_hard_used


@pytest.mark.parametrize("age_s", [MAX_AGE_S + 1, -MAX_AGE_S - 1])
def test_an_old_figure_refuses_what_it_proves_and_nothing_else(age_s: float) -> None:
    """Hours only grow. A figure of the future is as old: one of the clocks is wrong."""
    old = use(used(50, until=NOW - age_s), hardHours=50)
    assert old.is_hard_used
    assert not old.is_current
    assert not use(used(50, until=NOW - age_s), hardHours=51).is_hard_used


# --- what was known before ------------------------------------------------------------------------
def use_after(
    earlier: MonthUse, note: MonthUse | None, now: float = NOW, **budget: int
) -> BudgetUse:
    """With what the status kept when `earlier` was the note."""
    team = allocation(budget={"softHours": 50, "hardHours": 100})
    [kept] = (entry.to_keep for entry in budget_uses([team], earlier, [P5], NOW).values())
    status = team.status.model_copy(update={"budgetUsedHours": kept})
    edited = team.model_copy(
        update={"status": status, "spec": team.spec.model_copy(update={"budget": Budget(**budget)})}
    )
    return budget_uses([edited], note, [P5], now)["vision"]


@pytest.mark.parametrize("note", [None, used(20)], ids=["deleted", "of an older database"])
def test_a_note_that_is_lost_ends_no_budget_that_was_used(note: MonthUse | None) -> None:
    assert use_after(used(120), note, hardHours=100).is_hard_used
    soft = use_after(used(60), note, softHours=50, hardHours=100)
    assert (soft.is_soft_used, soft.is_hard_used) == (True, False)
    assert not use_after(used(120), note, NEXT_MONTH, hardHours=100).is_hard_used


def test_a_higher_budget_ends_what_was_kept_and_does_not_forget_it() -> None:
    raised = use_after(used(120), None, hardHours=101)
    assert not raised.is_hard_used
    assert raised.to_keep == {"2026-11": 100}


def test_what_is_kept_changes_twice_a_month_and_not_with_every_hour() -> None:
    kept = [use(used(hours), softHours=50, hardHours=100).to_keep for hours in range(150)]
    assert kept == [{}] * 50 + [{"2026-11": 50}] * 50 + [{"2026-11": 100}] * 50


# --- the turn of a month --------------------------------------------------------------------------
def test_a_new_month_begins_at_zero_also_before_the_ledger_has_noted_it() -> None:
    last = used(500, until=NEXT_MONTH - 120)
    assert use(last, NEXT_MONTH - 1, hardHours=100).is_hard_used
    turned = use(last, NEXT_MONTH, hardHours=100)
    assert (turned.month, turned.hours) == ("2026-12", Decimal(0))
    assert turned.is_current


def test_where_the_ledgers_clock_is_ahead_its_month_counts() -> None:
    ahead = used(1, until=NEXT_MONTH + 1, month="2026-12")
    assert use(ahead, NEXT_MONTH - 1, hardHours=100).hours == 1


NOTES = st.builds(used, st.integers(0, 300), until=st.floats(NOW, NEXT_MONTH - 1))


@given(st.lists(NOTES, min_size=1), st.integers(0, 300))
def test_within_a_month_a_budget_that_is_used_stays_used(
    notes: list[MonthUse], hard_hours: int
) -> None:
    """Whoever reads it, and with whatever clock of this month."""
    growing = sorted(notes, key=lambda note: note.used["vision"]["p5"][GPU])
    states = [use(note, unix(note.until), hardHours=hard_hours).is_hard_used for note in growing]
    assert states == sorted(states)


# --- what is refused ------------------------------------------------------------------------------
def quotas(plan: Plan, team: str = "vision") -> Mapping[tuple[str, str], Json]:
    """The quota of the team's queue by flavor and resource."""
    [queue] = [d for d in plan.objects if d.kind == CLUSTER_QUEUES and d.key[1] == team]
    return {
        (flavor["name"], entry["name"]): entry
        for group in queue.body["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for entry in flavor["resources"]
    }


def picture(note: MonthUse | None, *teams: ComputeAllocation) -> Snapshot:
    return replace(snapshot(teams, nodes=[node(), node("m")]), month_use=note, now=NOW)


SHARING = st.sampled_from(
    [
        {},
        {"borrowLimitPercent": 50},
        {"borrowLimits": [{"instanceType": "p5", "accelerators": 3}]},
        {"strategy": "Lend"},
        {"strategy": "DontLend"},
    ]
)


@given(SHARING, st.integers(0, 200), st.integers(0, 200), st.integers(0, 200))
def test_a_budget_changes_borrowing_limits_only(
    sharing: Json, hours: int, soft_hours: int, more_hours: int
) -> None:
    """Never the team's own quota, another team, a policy of preemption or a hold: so it ends no
    running job, and Kueue evicts nobody for a lower borrowing limit."""
    budget = {"softHours": soft_hours, "hardHours": soft_hours + more_hours}
    other = allocation("research")
    with_budget = make_plan(picture(used(hours), allocation(sharing=sharing, budget=budget), other))
    without = make_plan(picture(None, allocation(sharing=sharing), other))
    is_used = hours >= soft_hours + more_hours
    for before, after in zip(without.objects, with_budget.objects, strict=True):
        if (before.kind, before.key) != (CLUSTER_QUEUES, ("", "vision")):
            assert after == before
            continue
        specs = [dict(d.body["spec"], resourceGroups=None) for d in (before, after)]
        assert specs[0] == specs[1]
    for key, entry in quotas(with_budget).items():
        before_entry = quotas(without)[key]
        limit = {"borrowingLimit": "0"} if is_used else {}
        assert entry == before_entry | limit


def test_what_the_next_job_could_use_is_the_teams_own_quota() -> None:
    team = allocation(budget={"hardHours": 10})
    plan = make_plan(picture(used(10), team, allocation("research")))
    assert plan.available["vision"]["p5", GPU] == 8
    assert (
        make_plan(picture(used(9), team, allocation("research"))).available["vision"]["p5", GPU]
        == 16
    )


def test_without_a_policy_quotas_stay_as_they_are() -> None:
    team = allocation(budget={"hardHours": 10})
    empty = replace(picture(used(10), team), policy=None)
    assert make_plan(empty).budgets == {}
