"""The arithmetic of quota: never more than there is, never below zero, and a stated rule for who
gets less."""

import pytest

from cede.api.allocation import AllocationSpec, Sharing, TypeQuota
from cede.api.kueue import Node, NodeSpec, NodeStatus
from cede.api.names import GPU
from cede.api.objects import Condition, Meta
from cede.api.policy import InstanceType
from quota_controller.desired import capacity
from quota_controller.desired.capacity import divided, owned, shared_out, supplies
from tests.unit.cede_api.test_pods import daemon

GI = 2**30
P5 = InstanceType(name="p5", accelerators=8, cpu="190", memory="1900Gi")
G6 = InstanceType(name="g6", accelerators=4, cpu="48", memory="192Gi")
CPU = InstanceType(name="c7", cpu="64", memory="128Gi")


def node(
    name: str = "n",
    kind: str = "p5",
    gpus: int = 8,
    cpu: str = "180",
    memory: str = "1800Gi",
    *,
    ready: str = "True",
    cordoned: bool = False,
    going: bool = False,
) -> Node:
    labels = {"node.kubernetes.io/instance-type": kind}
    return Node(
        Meta(name=name, labels=labels, deletionTimestamp="2026-01-01T00:00:00Z" if going else ""),
        NodeSpec(unschedulable=cordoned),
        NodeStatus(
            {GPU: gpus, "cpu": cpu, "memory": memory, "pods": "110"}, (Condition("Ready", ready),)
        ),
    )


def test_a_whole_node_is_the_smallest_live_one_and_not_the_declared_one() -> None:
    supply = supplies([P5], [node("a", cpu="180"), node("b", cpu="170")])["p5"]
    assert supply.whole == {GPU: 8, "cpu": 170_000, "memory": 1800 * GI}
    assert supply.largest == {GPU: 8, "cpu": 180_000, "memory": 1800 * GI}
    assert supply.healthy == {GPU: 16, "cpu": 340_000, "memory": 3600 * GI}, (
        "what a larger node has beyond that fits no whole pod"
    )
    assert not supply.promised


def test_a_node_that_lost_an_accelerator_makes_no_other_worth_less() -> None:
    supply = supplies([P5], [node("a"), node("b", gpus=7), node("c", gpus=0)])["p5"]
    assert supply.whole[GPU] == 8
    assert (supply.healthy[GPU], supply.damaged) == (15, ("b", "c"))


@pytest.mark.parametrize(
    ("sick", "why"),
    [
        pytest.param(node("b", ready="False"), "not Ready", id="not ready"),
        pytest.param(node("b", ready="Unknown"), "silent", id="silent"),
        pytest.param(node("b", cordoned=True), "cordoned", id="cordoned"),
        pytest.param(node("b", going=True), "being deleted", id="being deleted"),
    ],
)
def test_only_healthy_nodes_count_as_capacity(sick: Node, why: str) -> None:
    supply = supplies([P5], [node("a"), sick])["p5"]
    assert (supply.nodes, supply.healthy_nodes, supply.healthy[GPU]) == (2, 1, 8), why


def test_a_type_without_nodes_is_worth_what_the_policy_says() -> None:
    supply = supplies([P5], [])["p5"]
    assert supply.promised
    assert supply.whole == {GPU: 8, "cpu": 190_000, "memory": 1900 * GI}


def test_a_node_of_two_types_counts_once() -> None:
    again = InstanceType(name="again", nodeLabels={"node.kubernetes.io/instance-type": "p5"})
    found = supplies([P5, again], [node()])
    assert (found["p5"].nodes, found["again"].nodes) == (1, 0)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param({"count": 2}, (16, 380_000, 3800), id="whole nodes"),
        pytest.param({"count": 0}, (0, 0, 0), id="none"),
        pytest.param({"accelerators": 4}, (4, 95_000, 950), id="the rest follows the accelerators"),
        pytest.param({"cpu": "19"}, (0, 19_000, 190), id="memory follows cpu, no accelerators"),
        pytest.param(
            {"memory": "190Gi"}, (0, 19_000, 190), id="cpu follows memory, no accelerators"
        ),
        pytest.param(
            {"accelerators": 4, "memory": "100Gi"}, (4, 95_000, 100), id="what is said is taken"
        ),
        pytest.param({"accelerators": 1, "cpu": "1", "memory": "1Gi"}, (1, 1000, 1), id="all said"),
    ],
)
def test_what_an_entry_is_worth(entry: dict[str, object], expected: tuple[int, int, int]) -> None:
    worth = capacity.worth(
        TypeQuota.model_validate({"instanceType": "p5", **entry}), supplies([P5], [])["p5"]
    )
    assert (worth[GPU], worth["cpu"], worth["memory"] / GI) == expected


MIG = InstanceType(
    name="a100",
    partitions={"nvidia.com/mig-1g.5gb": 28, "nvidia.com/mig-3g.20gb": 8},
    cpu="104",
    memory="1040Gi",
)
ONE, THREE = sorted(MIG.partitions)
MIXED = InstanceType(name="mixed", accelerators=4, partitions={ONE: 28}, cpu="112", memory="1120Gi")


@pytest.mark.parametrize(
    ("type_", "entry", "expected"),
    [
        pytest.param(
            MIG,
            {"count": 1},
            {ONE: 28, THREE: 8, "cpu": 104_000, "memory": 1040 * GI},
            id="whole nodes",
        ),
        pytest.param(
            MIG,
            {"partitions": {ONE: 26}},
            {ONE: 26, "cpu": 52_000, "memory": 520 * GI},
            id="26 of 52 slices",
        ),
        pytest.param(
            MIG,
            {"partitions": {THREE: 4}},
            {THREE: 4, "cpu": 24_000, "memory": 240 * GI},
            id="a larger one has more",
        ),
        pytest.param(
            MIG,
            {"partitions": {ONE: 1}, "cpu": "8"},
            {ONE: 1, "cpu": 8_000, "memory": 20 * GI},
            id="what is said is taken",
        ),
        pytest.param(
            MIXED,
            {"accelerators": 4},
            {GPU: 4, "cpu": 56_000, "memory": 560 * GI},
            id="a whole accelerator is 7 slices",
        ),
        pytest.param(
            MIXED,
            {"accelerators": 1, "partitions": {ONE: 7}},
            {GPU: 1, ONE: 7, "cpu": 28_000, "memory": 280 * GI},
            id="both",
        ),
        pytest.param(
            MIG, {"partitions": {"nvidia.com/mig-7g.80gb": 1}}, {}, id="one the type does not have"
        ),
    ],
)
def test_what_partitions_are_worth(
    type_: InstanceType, entry: dict[str, object], expected: dict[str, int]
) -> None:
    supply = supplies([type_], [])[type_.name]
    worth = capacity.worth(TypeQuota.model_validate({"instanceType": type_.name, **entry}), supply)
    assert +worth == expected
    assert supply.resources == (GPU, *sorted(type_.partitions), "cpu", "memory")


def test_a_node_that_is_partitioned_is_read_as_it_is() -> None:
    live = Node(
        Meta(name="n", labels={"node.kubernetes.io/instance-type": "a100"}),
        NodeSpec(),
        NodeStatus(
            {GPU: 0, ONE: 56, "cpu": "96", "memory": "960Gi"}, (Condition("Ready", "True"),)
        ),
    )
    assert supplies([MIG], [live])["a100"].whole == {
        GPU: 0,
        ONE: 56,
        THREE: 0,
        "cpu": 96_000,
        "memory": 960 * GI,
    }


def partitioned(name: str, **offers: int) -> Node:
    """A healthy node of MIXED's type that offers gpu, one."""
    keys = {"gpu": GPU, "one": ONE}
    amounts: dict[str, str | int] = {keys[key]: value for key, value in offers.items()} | {
        "cpu": "112",
        "memory": "1120Gi",
    }
    labels = {"node.kubernetes.io/instance-type": MIXED.name}
    return Node(
        Meta(name=name, labels=labels),
        NodeSpec(),
        NodeStatus(amounts, (Condition("Ready", "True"),)),
    )


def test_a_node_partitioned_anew_takes_from_the_others_nothing_but_itself() -> None:
    supply = supplies(
        [MIXED], [partitioned("a", gpu=8), partitioned("b", gpu=8), partitioned("c", one=56)]
    )[MIXED.name]
    assert supply.whole == {GPU: 8, ONE: 0, "cpu": 112_000, "memory": 1120 * GI}
    assert supply.healthy == {GPU: 16, ONE: 56, "cpu": 336_000, "memory": 3360 * GI}
    assert (supply.otherwise, supply.damaged) == (("c",), ())


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_type_with_whole_accelerators_is_counted_by_them_however_many_nodes_are_cut(
    cut: int,
) -> None:
    live = [partitioned("a", gpu=8), *(partitioned(f"m{number}", one=56) for number in range(cut))]
    assert (
        capacity.worth(
            TypeQuota(instanceType=MIXED.name, count=1), supplies([MIXED], live)[MIXED.name]
        )[GPU]
        == 8
    )


def test_each_layout_has_its_share_of_a_node() -> None:
    supply = supplies([MIXED], [partitioned("a", gpu=8), partitioned("b", one=56)])[MIXED.name]
    for said in ({"accelerators": 4}, {"partitions": {ONE: 28}}):
        worth = capacity.worth(
            TypeQuota.model_validate({"instanceType": MIXED.name, **said}), supply
        )
        assert worth["cpu"] == 56_000, said


def test_what_daemonsets_take_is_not_for_jobs() -> None:
    # 100m and 1Gi
    agent = daemon()
    supply = supplies([P5], [node("a"), node("b")], [agent, agent])["p5"]
    assert supply.whole == {GPU: 8, "cpu": 179_800, "memory": 1798 * GI}
    assert supply.healthy == {GPU: 16, "cpu": 359_600, "memory": 3596 * GI}
    assert supplies([P5], [node(cpu="50m")], [agent])["p5"].whole["cpu"] == 0, "never below zero"


def test_a_type_that_has_none_of_a_resource_divides_by_nothing() -> None:
    supply = supplies([CPU], [])["c7"]
    worth = capacity.worth(TypeQuota(instanceType="c7", accelerators=2), supply)
    assert worth == {GPU: 2, "cpu": 0, "memory": 0}


@pytest.mark.parametrize(
    ("wishes", "available", "expected"),
    [
        pytest.param({"a": 4, "b": 4}, 9, {"a": 4, "b": 4}, id="all fit"),
        pytest.param({"a": 4, "b": 4}, 4, {"a": 2, "b": 2}, id="in proportion"),
        pytest.param({"a": 6, "b": 2}, 4, {"a": 3, "b": 1}, id="in proportion to what is owned"),
        pytest.param({"a": 4, "b": 4}, 5, {"a": 3, "b": 2}, id="an odd unit goes by name"),
        pytest.param(
            {"b": 5, "a": 2}, 5, {"b": 4, "a": 1}, id="an odd unit goes to the largest remainder"
        ),
        pytest.param({"a": 4}, 0, {"a": 0}, id="nothing left"),
        pytest.param({}, 4, {}, id="nobody"),
    ],
)
def test_who_gets_less(wishes: dict[str, int], available: int, expected: dict[str, int]) -> None:
    assert divided(wishes, available) == expected


def test_unallocated_capacity_goes_before_anyones_quota() -> None:
    owners = {
        "a": owned(
            AllocationSpec(quotas=[TypeQuota(instanceType="p5", count=1)]),
            supplies([P5], [node("x")]),
        )
    }
    three = shared_out(owners, supplies([P5], [node("x"), node("y"), node("z")]))
    two = shared_out(owners, supplies([P5], [node("x"), node("y"), node("z", ready="False")]))
    assert (three.unallocated["p5", GPU], three.granted["a"]["p5", GPU]) == (16, 8)
    assert (two.unallocated["p5", GPU], two.granted["a"]["p5", GPU]) == (8, 8)


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        pytest.param({}, None, id="no limit"),
        pytest.param(
            {"borrowLimitPercent": 50},
            (4, 95_000, 950),
            id="percent of what is owned, each resource alike",
        ),
        pytest.param({"borrowLimitPercent": 0}, (0, 0, 0), id="nothing"),
        pytest.param({"borrowLimitPercent": 300}, (24, 570_000, 5700), id="more than is owned"),
        pytest.param(
            {"borrowLimits": [{"instanceType": "p5", "accelerators": 2}]},
            (2, 47_500, 475),
            id="amounts",
        ),
        pytest.param(
            {"borrowLimits": [{"instanceType": "g6", "count": 1}]},
            (0, 0, 0),
            id="only of what is listed",
        ),
        pytest.param({"strategy": "Lend"}, (0, 0, 0), id="lends only"),
        pytest.param({"strategy": "DontLend"}, (0, 0, 0), id="shares nothing"),
    ],
)
def test_borrowing_limits(
    sharing: dict[str, object], expected: tuple[int, int, int] | None
) -> None:
    supply = supplies([P5, G6], [])
    spec = AllocationSpec(
        quotas=[TypeQuota(instanceType="p5", count=1)], sharing=Sharing.model_validate(sharing)
    )
    limits = capacity.borrowing_limits(spec, owned(spec, supply), supply)
    found = (
        limits
        if limits is None
        else (limits["p5", GPU], limits["p5", "cpu"], limits["p5", "memory"] // GI)
    )
    assert found == expected
