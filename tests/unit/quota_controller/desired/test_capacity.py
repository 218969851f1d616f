"""The capacity of an instance type: what counts as a whole node, and which nodes count."""

import pytest

from cede.api.instance_type import InstanceType
from cede.api.kueue import Node
from cede.api.names import GPU
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import capacities
from quota_controller.desired.quota_entries import entry_quota
from tests.builders.quotas import GI, MIG, MIXED, ONE_SLICE, P5, THREE_SLICES, daemon_set, node


def mixed_node(name: str, *, gpus: int = 0, one_slice: int = 0) -> Node:
    """A healthy node of type MIXED; partitions that it does not have are not reported."""
    partitions = {ONE_SLICE: one_slice} if one_slice else {}
    return node(name, "mixed", gpus, cpu="112", memory="1120Gi", partitions=partitions)


def test_a_whole_node_is_the_smallest_live_one_and_not_the_declared_one() -> None:
    capacity = capacities([P5], [node("a", cpu="180"), node("b", cpu="170")])["p5"]
    assert capacity.whole_node == {GPU: 8, "cpu": 170_000, "memory": 1800 * GI}
    assert capacity.largest_node == {GPU: 8, "cpu": 180_000, "memory": 1800 * GI}
    assert capacity.healthy == {GPU: 16, "cpu": 340_000, "memory": 3600 * GI}, (
        "what a larger node has beyond that fits no whole-node pod"
    )
    assert not capacity.declared_only


def test_a_node_that_lost_an_accelerator_does_not_shrink_a_whole_node() -> None:
    capacity = capacities([P5], [node("a"), node("b", gpus=7), node("c", gpus=0)])["p5"]
    assert capacity.whole_node[GPU] == 8
    assert (capacity.healthy[GPU], capacity.degraded) == (15, ("b", "c"))


@pytest.mark.parametrize(
    "unhealthy",
    [
        pytest.param(node("b", ready="False"), id="not ready"),
        pytest.param(node("b", ready="Unknown"), id="no heartbeat"),
        pytest.param(node("b", cordoned=True), id="cordoned"),
        pytest.param(node("b", deleting=True), id="being deleted"),
    ],
)
def test_only_healthy_nodes_count_as_capacity(unhealthy: Node) -> None:
    capacity = capacities([P5], [node("a"), unhealthy])["p5"]
    assert (capacity.nodes, capacity.healthy_nodes, capacity.healthy[GPU]) == (2, 1, 8)
    assert capacity.installed[GPU] == 16, "those that are down may return"


def test_a_type_without_nodes_has_the_amounts_of_the_policy() -> None:
    capacity = capacities([P5], [])["p5"]
    assert capacity.declared_only
    assert capacity.whole_node == {GPU: 8, "cpu": 190_000, "memory": 1900 * GI}


def test_a_node_that_two_types_select_counts_for_the_first() -> None:
    second = InstanceType(name="second", nodeLabels={"node.kubernetes.io/instance-type": "p5"})
    by_type = capacities([P5, second], [node()])
    assert (by_type["p5"].nodes, by_type["second"].nodes) == (1, 0)


def test_requests_of_daemon_sets_are_not_for_jobs() -> None:
    # 100m CPU and 1Gi memory each
    daemons = [daemon_set(), daemon_set()]
    capacity = capacities([P5], [node("a"), node("b")], daemons)["p5"]
    assert capacity.whole_node == {GPU: 8, "cpu": 179_800, "memory": 1798 * GI}
    assert capacity.healthy == {GPU: 16, "cpu": 359_600, "memory": 3596 * GI}
    small_node = node(cpu="50m")
    assert capacities([P5], [small_node], daemons)["p5"].whole_node["cpu"] == 0, "never below zero"


# --- partitions -----------------------------------------------------------------------------------
def test_a_partitioned_node_counts_with_what_it_reports() -> None:
    live = node("n", "a100", 0, cpu="96", memory="960Gi", partitions={ONE_SLICE: 56})
    assert capacities([MIG], [live])["a100"].whole_node == {
        GPU: 0,
        ONE_SLICE: 56,
        THREE_SLICES: 0,
        "cpu": 96_000,
        "memory": 960 * GI,
    }


def test_a_repartitioned_node_does_not_change_the_others() -> None:
    nodes = [mixed_node("a", gpus=8), mixed_node("b", gpus=8), mixed_node("c", one_slice=56)]
    capacity = capacities([MIXED], nodes)["mixed"]
    assert capacity.whole_node == {GPU: 8, ONE_SLICE: 0, "cpu": 112_000, "memory": 1120 * GI}
    assert capacity.healthy == {GPU: 16, ONE_SLICE: 56, "cpu": 336_000, "memory": 3360 * GI}
    assert (capacity.other_layout, capacity.degraded) == (("c",), ())


@pytest.mark.parametrize("partitioned", [1, 2, 3])
def test_whole_accelerators_define_a_node_however_many_are_partitioned(partitioned: int) -> None:
    nodes = [mixed_node("a", gpus=8)]
    nodes += [mixed_node(f"m{number}", one_slice=56) for number in range(partitioned)]
    capacity = capacities([MIXED], nodes)["mixed"]
    assert entry_quota(TypeQuota(instanceType="mixed", count=1), capacity)[GPU] == 8


@pytest.mark.parametrize("entry", [{"accelerators": 4}, {"partitions": {ONE_SLICE: 28}}])
def test_half_a_node_of_each_layout_has_half_of_its_cpu(entry: dict[str, object]) -> None:
    nodes = [mixed_node("a", gpus=8), mixed_node("b", one_slice=56)]
    capacity = capacities([MIXED], nodes)["mixed"]
    quota = TypeQuota.model_validate({"instanceType": "mixed", **entry})
    assert entry_quota(quota, capacity)["cpu"] == 56_000


def test_three_layouts_add_what_each_node_offers() -> None:
    type_ = P5.model_copy(update={"partitions": {ONE_SLICE: 28, THREE_SLICES: 8}})
    offers = [(32, 8), (56, 0), *5 * [(0, 16)]]
    nodes = [
        node(gpus=0, partitions={ONE_SLICE: one_slice, THREE_SLICES: three_slices})
        for one_slice, three_slices in offers
    ]
    healthy = capacities([type_], nodes)["p5"].healthy
    assert healthy[GPU] == 0
    assert healthy[ONE_SLICE] == 32 + 56
    assert healthy[THREE_SLICES] == 8 + 5 * 16
