"""What was granted stays granted; more is granted of what is unallocated; who gives when nodes
fail."""

from collections.abc import Mapping

from cede.api.allocation import AllocationSpec
from cede.api.policy import MAX_RESOURCES
from cede.api.resources import Quota
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import Capacity, capacities
from quota_controller.desired.grant_records import GrantedAmount, GrantRecord, after_edit
from quota_controller.desired.grants import Grants, grant
from quota_controller.desired.quota_entries import owned_quota
from tests.builders.quotas import MIG, ONE_SLICE, P5, P5_GPU, THREE_SLICES, daemon_set, node


def test_lost_nodes_reduce_unallocated_capacity_before_any_quota() -> None:
    spec = AllocationSpec(quotas=[TypeQuota(instanceType="p5", count=1)])
    owned = {"a": owned_quota(spec, capacities([P5], [node("x")]))}
    three = grant(owned, capacities([P5], [node("x"), node("y"), node("z")]))
    two = grant(owned, capacities([P5], [node("x"), node("y"), node("z", ready="False")]))
    assert (three.unallocated[P5_GPU], three.usable["a"][P5_GPU]) == (16, 8)
    assert (two.unallocated[P5_GPU], two.usable["a"][P5_GPU]) == (8, 8)


# --- with a history -------------------------------------------------------------------------------
TWO_NODES = capacities([P5], [node("x"), node("y")])
HALF_DOWN = capacities([P5], [node("x"), node("y", ready="False")])
WITHOUT_DEVICES = capacities([P5], [node("x", gpus=0), node("y", gpus=0)])
DECLARED = capacities([P5], [])


def specs(**counts: int) -> dict[str, AllocationSpec]:
    """Allocations that own this many nodes of type p5."""
    return {
        name: AllocationSpec(quotas=[TypeQuota(instanceType="p5", count=count)])
        for name, count in counts.items()
    }


def granted_next(
    before: Grants | None, teams: dict[str, AllocationSpec], capacity_of: dict[str, Capacity]
) -> Grants:
    """The grants after a pass that follows the one of `before`."""
    records = before.records if before else {}
    owned = {name: owned_quota(spec, capacity_of) for name, spec in teams.items()}
    kept = {
        name: after_edit(records.get(name, GrantRecord()), spec.quotas, capacity_of)
        for name, spec in teams.items()
    }
    return grant(owned, capacity_of, kept)


def accelerators(quotas: Mapping[str, Quota]) -> dict[str, int]:
    return {name: quota[P5_GPU] for name, quota in quotas.items()}


def cpus(quotas: Mapping[str, Quota]) -> dict[str, int]:
    """In thousandths."""
    return {name: quota["p5", "cpu"] for name, quota in quotas.items()}


def test_an_allocation_that_is_too_large_takes_nothing_from_others() -> None:
    """It gets what is unallocated, and no more."""
    first = granted_next(None, specs(a=1), TWO_NODES)
    second = granted_next(first, specs(a=1, b=50), TWO_NODES)
    assert accelerators(second.usable) == {"a": 8, "b": 8}
    third = granted_next(second, specs(a=1, b=50, c=1), TWO_NODES)
    assert accelerators(third.usable) == {"a": 8, "b": 8, "c": 0}


def test_what_an_admin_takes_from_a_large_allocation_goes_to_those_that_wait() -> None:
    before = granted_next(None, specs(a=1, b=50), TWO_NODES)
    before = granted_next(before, specs(a=1, b=50, c=1), TWO_NODES)
    after = granted_next(before, specs(a=1, b=0, c=1), TWO_NODES)
    assert accelerators(after.usable) == {"a": 8, "b": 0, "c": 8}


def test_failed_nodes_reduce_what_was_granted_in_proportion_until_they_return() -> None:
    before = granted_next(None, specs(a=1, b=50), TWO_NODES)
    failed = granted_next(before, specs(a=1, b=50), HALF_DOWN)
    assert accelerators(failed.usable) == {"a": 4, "b": 4}
    assert accelerators(failed.granted) == {"a": 8, "b": 8}
    back = granted_next(failed, specs(a=1, b=50), TWO_NODES)
    assert accelerators(back.usable) == {"a": 8, "b": 8}


def test_nothing_is_granted_while_healthy_nodes_hold_less_than_is_granted() -> None:
    before = granted_next(None, specs(a=1, b=1), TWO_NODES)
    failed = granted_next(before, specs(a=1, b=1), HALF_DOWN)
    edited = granted_next(failed, specs(a=1, b=1, c=1), HALF_DOWN)
    assert accelerators(edited.usable) == {"a": 4, "b": 4, "c": 0}


def test_what_fits_when_nodes_that_are_down_return_is_told_apart() -> None:
    before = granted_next(None, specs(a=1), HALF_DOWN)
    waiting = granted_next(before, specs(a=1, b=1, c=50), HALF_DOWN)
    assert accelerators(waiting.granted) == {"a": 8, "b": 0, "c": 0}
    assert accelerators(waiting.awaited) == {"a": 0, "b": 8, "c": 0}


def test_devices_that_are_gone_for_a_moment_lower_nobody_for_good() -> None:
    """Neither in nodes nor in amounts, also if others wait for more, or edit meanwhile."""
    teams = specs(a=1, b=50)
    teams["c"] = AllocationSpec(quotas=[TypeQuota(instanceType="p5", accelerators=4)])
    before = granted_next(None, teams, TWO_NODES)
    assert accelerators(before.usable) == {"a": 8, "b": 4, "c": 4}
    gone = granted_next(before, teams, WITHOUT_DEVICES)
    teams["d"] = AllocationSpec(quotas=[TypeQuota(instanceType="p5", cpu="900")])
    edited = granted_next(gone, teams, WITHOUT_DEVICES)
    assert accelerators(edited.usable) == {"a": 0, "b": 0, "c": 0, "d": 0}
    back = granted_next(edited, teams, TWO_NODES)
    assert {name: back.usable[name] for name in "abc"} == before.usable


def test_an_edit_while_devices_are_gone_and_a_node_is_down_lowers_nobody_else() -> None:
    """Without devices b asks for no CPU, and keeps its share until it asks for CPU again."""
    teams = specs(a=1)
    teams["b"] = AllocationSpec(quotas=[TypeQuota(instanceType="p5", accelerators=4)])
    before = granted_next(None, teams, TWO_NODES)
    assert cpus(before.usable) == {"a": 180_000, "b": 90_000}
    gone = capacities([P5], [node("x", gpus=0), node("y", gpus=0, ready="False")])
    failed = granted_next(before, teams, gone)
    assert cpus(failed.usable) == {"a": 120_000, "b": 0}
    edited = granted_next(failed, specs(a=1, b=1), gone)
    assert cpus(edited.usable) == {"a": 120_000, "b": 60_000}
    reverted = granted_next(edited, teams, gone)
    assert cpus(reverted.usable) == {"a": 120_000, "b": 0}


def divided(*layouts: tuple[int, int]) -> dict[str, Capacity]:
    """Nodes with this many partitions of one slice and of three."""
    return capacities(
        [MIG],
        [
            node(str(number), "a100", gpus=0, partitions={ONE_SLICE: ones, THREE_SLICES: threes})
            for number, (ones, threes) in enumerate(layouts)
        ],
    )


def test_partitions_that_no_longer_exist_reduce_nobody() -> None:
    """Two nodes are divided in another way, and a, which owns whole nodes, is granted those."""
    teams = {
        "a": AllocationSpec(quotas=[TypeQuota(instanceType="a100", count=2)]),
        "b": AllocationSpec(quotas=[TypeQuota(instanceType="a100", partitions={ONE_SLICE: 6})]),
    }
    before = granted_next(None, teams, divided((6, 0), (6, 0), (6, 0)))
    after = granted_next(before, teams, divided((6, 0), (0, 2), (0, 2)))
    assert after.usable["a"]["a100", THREE_SLICES] == 4
    assert after.usable["b"]["a100", ONE_SLICE] == 6


def test_nodes_that_are_worth_less_for_good_harm_nobody_for_the_large_one() -> None:
    """A new DaemonSet takes CPU of every node: each team still has what it owns of whole nodes."""
    before = granted_next(None, specs(a=1, b=50), TWO_NODES)
    daemons = [daemon_set()]
    smaller = capacities([P5], [node("x"), node("y")], daemons)
    after = granted_next(before, specs(a=1, b=50), smaller)
    assert after.usable["a"] == owned_quota(specs(a=1)["a"], smaller)
    third = capacities([P5], [node("x"), node("y"), node("z")], daemons)
    joined = granted_next(after, specs(a=1, b=1, c=1), third)
    assert joined.usable["c"] == owned_quota(specs(c=1)["c"], third), "no remainder is withheld"


def test_a_type_without_nodes_is_allowed_and_granted_when_nodes_join() -> None:
    before = granted_next(None, specs(a=1, b=50), DECLARED)
    assert accelerators(before.usable) == {"a": 8, "b": 400}
    joined = granted_next(before, specs(a=1, b=50), TWO_NODES)
    assert accelerators(joined.usable) == {"a": 8, "b": 8}


def test_nodes_that_all_go_and_return_serve_those_that_had_them() -> None:
    before = granted_next(None, specs(z=2), TWO_NODES)
    gone = granted_next(before, specs(z=2), DECLARED)
    edited = granted_next(gone, specs(z=2, a=1), DECLARED)
    back = granted_next(edited, specs(z=2, a=1), TWO_NODES)
    assert accelerators(back.usable) == {"a": 0, "z": 16}


def nodes(number: int) -> dict[str, Capacity]:
    return capacities([P5], [node(str(index)) for index in range(number)])


def test_new_requests_are_served_in_rising_order_one_after_the_other() -> None:
    grants = granted_next(None, specs(x=50, y=60, z=1), nodes(5))
    assert accelerators(grants.usable) == {"x": 32, "y": 0, "z": 8}


def test_nodes_that_join_one_by_one_serve_the_small_before_the_large() -> None:
    before = granted_next(None, specs(a=3, b=50), DECLARED)
    shares = []
    for number in (1, 2, 3, 4):
        before = granted_next(before, specs(a=3, b=50), nodes(number))
        shares.append(accelerators(before.usable))
    assert shares == [
        {"a": 8, "b": 0},
        {"a": 16, "b": 0},
        {"a": 24, "b": 0},
        {"a": 24, "b": 8},
    ]


def test_of_two_that_do_not_both_fit_one_gets_a_whole_node() -> None:
    """Half a node each would be of no use to anybody."""
    before = granted_next(None, specs(a=2), nodes(3))
    after = granted_next(before, specs(a=2, c=2, d=2), nodes(3))
    assert accelerators(after.usable) == {"a": 16, "c": 8, "d": 0}


def test_when_nodes_are_replaced_one_by_one_only_the_large_one_gives() -> None:
    """It is granted what the new node brings, and loses that when the old one leaves."""
    before = granted_next(None, specs(a=3), nodes(4))
    before = granted_next(before, specs(a=3, b=50), nodes(4))
    surge = granted_next(before, specs(a=3, b=50), nodes(5))
    assert accelerators(surge.usable) == {"a": 24, "b": 16}
    after = granted_next(surge, specs(a=3, b=50), nodes(4))
    assert accelerators(after.granted) == accelerators(after.usable) == {"a": 24, "b": 8}
    restarted = granted_next(after, specs(a=3, b=50), nodes(4))
    assert restarted.granted == after.granted


def test_nodes_that_are_down_cost_nobody_what_was_granted() -> None:
    before = granted_next(None, specs(a=1), TWO_NODES)
    before = granted_next(before, specs(a=1, b=50), TWO_NODES)
    failed = granted_next(before, specs(a=1, b=50), HALF_DOWN)
    assert accelerators(failed.granted) == {"a": 8, "b": 8}


def test_an_edit_of_the_large_one_while_devices_return_multiplies_nothing() -> None:
    teams = specs(a=1)
    teams["b"] = AllocationSpec(quotas=[TypeQuota(instanceType="p5", accelerators=400)])
    before = granted_next(None, teams, TWO_NODES)
    partly = capacities([P5], [node("x", gpus=1), node("y", gpus=1)])
    before = granted_next(before, teams, partly)
    before = granted_next(before, specs(a=1, b=50), partly)
    back = granted_next(before, specs(a=1, b=50), TWO_NODES)
    assert accelerators(back.granted) == accelerators(back.usable) == {"a": 8, "b": 8}


def test_no_more_resources_are_kept_than_a_status_holds() -> None:
    """A policy may rename partitions again and again."""
    quotas = specs(a=1)["a"].quotas
    amounts = {("p5", f"nvidia.com/mig-{number}"): GrantedAmount(1, 1) for number in range(40)}
    record = GrantRecord(quotas, amounts)
    owned = {"a": owned_quota(specs(a=1)["a"], TWO_NODES)}
    grants = grant(owned, TWO_NODES, {"a": record})
    assert len(grants.records["a"].amounts) == MAX_RESOURCES
    assert grants.records["a"].amounts[P5_GPU] == GrantedAmount(8, 8)


# --- statuses of a version that recorded no grants ------------------------------------------------
def of_an_older_version(**counts: int) -> dict[str, GrantRecord]:
    return {
        name: GrantRecord(spec.quotas, undecided=True) for name, spec in specs(**counts).items()
    }


def upgraded(capacity_of: dict[str, Capacity], **counts: int) -> Grants:
    owned = {name: owned_quota(spec, capacity_of) for name, spec in specs(**counts).items()}
    return grant(owned, capacity_of, of_an_older_version(**counts))


def test_after_an_upgrade_all_that_fits_is_granted() -> None:
    grants = upgraded(TWO_NODES, a=1, b=1)
    assert accelerators(grants.granted) == {"a": 8, "b": 8}
    assert not any(record.undecided for record in grants.records.values())


def test_an_upgrade_while_nodes_are_down_grants_what_they_hold_too() -> None:
    grants = upgraded(HALF_DOWN, a=1, b=1)
    assert accelerators(grants.granted) == {"a": 8, "b": 8}
    assert accelerators(grants.usable) == {"a": 4, "b": 4}


def test_after_an_upgrade_the_small_have_all_and_the_large_one_what_is_left() -> None:
    grants = upgraded(TWO_NODES, a=1, b=3)
    assert accelerators(grants.usable) == {"a": 8, "b": 8}
    later = granted_next(grants, specs(a=1, b=3), TWO_NODES)
    assert later.granted == grants.granted


def test_a_status_that_was_not_written_after_the_upgrade_changes_no_share() -> None:
    """The controller restarts when it has written the status of one team only."""
    grants = upgraded(TWO_NODES, a=1, b=3, c=2)
    owned = {name: owned_quota(spec, TWO_NODES) for name, spec in specs(a=1, b=3, c=2).items()}
    records = {**of_an_older_version(a=1, b=3, c=2), "b": grants.records["b"]}
    assert grant(owned, TWO_NODES, records).granted == grants.granted
