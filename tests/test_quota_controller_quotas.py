"""The arithmetic of quota: never more than there is, never below zero, and a stated rule for who gets less."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation import AllocationSpec, Sharing, TypeQuota
from cede.api.kueue import Node, NodeSpec, NodeStatus
from cede.api.names import GPU
from cede.api.objects import Condition, Meta
from cede.api.policy import InstanceType
from cede.api.resources import Quota
from quota_controller import quotas
from quota_controller.quotas import divided, lent, owned, shared_out, supplies

GI = 2**30
P5 = InstanceType(name="p5", accelerators=8, cpu="190", memory="1900Gi")
G6 = InstanceType(name="g6", accelerators=4, cpu="48", memory="192Gi")
CPU = InstanceType(name="c7", cpu="64", memory="128Gi")


def node(
    name: str = "n", kind: str = "p5", gpus: int = 8, cpu: str = "180", memory: str = "1800Gi",
    *, ready: str = "True", cordoned: bool = False, going: bool = False,
) -> Node:  # fmt: skip
    labels = {"node.kubernetes.io/instance-type": kind}
    return Node(
        Meta(name=name, labels=labels, deletionTimestamp="2026-01-01T00:00:00Z" if going else ""),
        NodeSpec(unschedulable=cordoned),
        NodeStatus({GPU: gpus, "cpu": cpu, "memory": memory, "pods": "110"}, (Condition("Ready", ready),)),
    )


def test_a_whole_node_is_the_smallest_live_one_and_not_the_declared_one() -> None:
    supply = supplies([P5], [node("a", cpu="180"), node("b", cpu="170")])["p5"]
    assert supply.whole == {GPU: 8, "cpu": 170_000, "memory": 1800 * GI}
    assert supply.healthy == {GPU: 16, "cpu": 350_000, "memory": 3600 * GI}
    assert not supply.promised


def test_a_node_that_lost_an_accelerator_makes_no_other_worth_less() -> None:
    supply = supplies([P5], [node("a"), node("b", gpus=7), node("c", gpus=0)])["p5"]
    assert supply.whole[GPU] == 8
    assert supply.healthy[GPU] == 15


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
        pytest.param({"memory": "190Gi"}, (0, 19_000, 190), id="cpu follows memory, no accelerators"),
        pytest.param({"accelerators": 4, "memory": "100Gi"}, (4, 95_000, 100), id="what is said is taken"),
        pytest.param({"accelerators": 1, "cpu": "1", "memory": "1Gi"}, (1, 1000, 1), id="all said"),
    ],
)
def test_what_an_entry_is_worth(entry: dict[str, object], expected: tuple[int, int, int]) -> None:
    worth = quotas.worth(TypeQuota.model_validate({"instanceType": "p5", **entry}), supplies([P5], [])["p5"])
    assert (worth[GPU], worth["cpu"], worth["memory"] / GI) == expected


def test_a_type_that_has_none_of_a_resource_divides_by_nothing() -> None:
    supply = supplies([CPU], [])["c7"]
    worth = quotas.worth(TypeQuota(instanceType="c7", accelerators=2), supply)
    assert worth == {GPU: 2, "cpu": 0, "memory": 0}


@pytest.mark.parametrize(
    ("wishes", "available", "expected"),
    [
        pytest.param({"a": 4, "b": 4}, 9, {"a": 4, "b": 4}, id="all fit"),
        pytest.param({"a": 4, "b": 4}, 4, {"a": 2, "b": 2}, id="in proportion"),
        pytest.param({"a": 6, "b": 2}, 4, {"a": 3, "b": 1}, id="in proportion to what is owned"),
        pytest.param({"a": 4, "b": 4}, 5, {"a": 3, "b": 2}, id="an odd unit goes by name"),
        pytest.param({"b": 5, "a": 2}, 5, {"b": 4, "a": 1}, id="an odd unit goes to the largest remainder"),
        pytest.param({"a": 4}, 0, {"a": 0}, id="nothing left"),
        pytest.param({}, 4, {}, id="nobody"),
    ],
)
def test_who_gets_less(wishes: dict[str, int], available: int, expected: dict[str, int]) -> None:
    assert divided(wishes, available) == expected


def test_unallocated_capacity_goes_before_anyones_quota() -> None:
    owners = {"a": owned(AllocationSpec(quotas=[TypeQuota(instanceType="p5", count=1)]), supplies([P5], [node("x")]))}
    three = shared_out(owners, supplies([P5], [node("x"), node("y"), node("z")]))
    two = shared_out(owners, supplies([P5], [node("x"), node("y"), node("z", ready="False")]))
    assert (three.unallocated["p5", GPU], three.granted["a"]["p5", GPU]) == (16, 8)
    assert (two.unallocated["p5", GPU], two.granted["a"]["p5", GPU]) == (8, 8)


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        pytest.param({}, None, id="no limit"),
        pytest.param({"borrowLimitPercent": 50}, (4, 95_000, 950), id="percent of what is owned, each resource alike"),
        pytest.param({"borrowLimitPercent": 0}, (0, 0, 0), id="nothing"),
        pytest.param({"borrowLimitPercent": 300}, (24, 570_000, 5700), id="more than is owned"),
        pytest.param({"borrowLimits": [{"instanceType": "p5", "accelerators": 2}]}, (2, 47_500, 475), id="amounts"),
        pytest.param({"borrowLimits": [{"instanceType": "g6", "count": 1}]}, (0, 0, 0), id="only of what is listed"),
        pytest.param({"strategy": "Lend"}, (0, 0, 0), id="lends only"),
        pytest.param({"strategy": "DontLend"}, (0, 0, 0), id="shares nothing"),
    ],
)
def test_borrowing_limits(sharing: dict[str, object], expected: tuple[int, int, int] | None) -> None:
    supply = supplies([P5, G6], [])
    spec = AllocationSpec(quotas=[TypeQuota(instanceType="p5", count=1)], sharing=Sharing.model_validate(sharing))
    limits = quotas.borrowing_limits(spec, owned(spec, supply), supply)
    found = limits if limits is None else (limits["p5", GPU], limits["p5", "cpu"], limits["p5", "memory"] // GI)
    assert found == expected


def test_who_lends_what_is_borrowed() -> None:
    key = ("p5", GPU)
    idle = {"a": Quota({key: 4}), "b": Quota({key: 12})}
    assert lent(idle, Quota({key: 8}), Quota({key: 4})) == {"a": {key: 1}, "b": {key: 3}}
    assert lent(idle, Quota({key: 3}), Quota({key: 4})) == {"a": {}, "b": {}}, "unallocated capacity lends first"


# --- what must hold for every cluster -----------------------------------------------------------------------------
nodes = st.lists(
    st.builds(
        node,
        kind=st.sampled_from(["p5", "g6", "stranger"]),
        gpus=st.integers(0, 16),
        cpu=st.integers(0, 400_000).map("{}m".format),
        memory=st.integers(0, 2**44).map(str),
        ready=st.sampled_from(["True", "True", "False", "Unknown"]),
        cordoned=st.booleans(),
    ),
    max_size=8,
)
entries = st.one_of(
    st.fixed_dictionaries({"count": st.integers(0, 20)}),
    st.fixed_dictionaries(
        {"accelerators": st.integers(0, 64)},
        optional={"cpu": st.integers(0, 900).map(str), "memory": st.integers(0, 4000).map("{}Gi".format)},
    ),
    st.fixed_dictionaries({"cpu": st.integers(0, 900).map(str)}),
)
specs = st.builds(
    lambda p5, g6, percent: AllocationSpec.model_validate({
        "quotas": [{"instanceType": "p5", **p5}, {"instanceType": "g6", **g6}],
        "sharing": {"borrowLimitPercent": percent},
    }),
    entries, entries, st.one_of(st.none(), st.integers(0, 500)),
)  # fmt: skip


@given(nodes, st.dictionaries(st.sampled_from("abcdef"), specs, max_size=6))
def test_quotas_never_promise_more_than_healthy_nodes_hold(live: list[Node], specs: dict[str, AllocationSpec]) -> None:
    supply = supplies([P5, G6], live)
    owners = {name: owned(spec, supply) for name, spec in specs.items()}
    shares = shared_out(owners, supply)
    for flavor, here in supply.items():
        for resource in here.resources:
            key = (flavor, resource)
            each = {name: quota[key] for name, quota in shares.granted.items()}
            assert all(0 <= value <= owners[name][key] for name, value in each.items())
            assert shares.unallocated[key] >= 0
            if not here.promised:
                assert sum(each.values()) + shares.unallocated[key] == here.healthy[resource]
            short = sum(owner[key] for owner in owners.values()) - sum(each.values())
            assert short == 0 or shares.unallocated[key] == 0, "unallocated first"


@given(nodes, specs)
def test_a_borrowing_limit_is_never_negative(live: list[Node], spec: AllocationSpec) -> None:
    supply = supplies([P5, G6], live)
    limits = quotas.borrowing_limits(spec, owned(spec, supply), supply)
    assert limits is None or min(limits.values(), default=0) >= 0


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**15)), st.integers(0, 10**15))
def test_a_division_gives_out_all_there_is_and_no_more(wishes: dict[str, int], available: int) -> None:
    out = divided(wishes, available)
    assert sum(out.values()) == min(available, sum(wishes.values()))
    assert all(0 <= out[name] <= wish for name, wish in wishes.items())


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 50)), st.integers(0, 200), st.integers(0, 20))
def test_nobody_lends_more_than_is_idle(idle: dict[str, int], borrowed: int, unallocated: int) -> None:
    key = ("p5", GPU)
    account = lent({n: Quota({key: v}) for n, v in idle.items()}, Quota({key: borrowed}), Quota({key: unallocated}))
    given_ = Counter({name: quota[key] for name, quota in account.items()})
    assert all(given_[name] <= value for name, value in idle.items())
    assert given_.total() == min(max(0, borrowed - unallocated), sum(idle.values()))
