"""What must hold of quota on every cluster, whatever its nodes, DaemonSets and allocations."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation import AllocationSpec
from cede.api.kueue import Node
from cede.api.names import GPU
from cede.api.pods import DaemonSet, daemon_requests
from cede.api.resources import Resources, amount
from quota_controller.desired import capacity
from quota_controller.desired.capacity import divided, owned, shared_out, supplies
from tests.unit.cede_api.test_pods import daemon
from tests.unit.quota_controller.desired.test_capacity import G6, P5, node

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
        optional={
            "cpu": st.integers(0, 900).map(str),
            "memory": st.integers(0, 4000).map("{}Gi".format),
        },
    ),
    st.fixed_dictionaries({"cpu": st.integers(0, 900).map(str)}),
)
specs = st.builds(
    lambda p5, g6, percent: AllocationSpec.model_validate(
        {
            "quotas": [{"instanceType": "p5", **p5}, {"instanceType": "g6", **g6}],
            "sharing": {"borrowLimitPercent": percent},
        }
    ),
    entries,
    entries,
    st.one_of(st.none(), st.integers(0, 500)),
)


@given(nodes, st.dictionaries(st.sampled_from("abcdef"), specs, max_size=6))
def test_quotas_never_promise_more_than_healthy_nodes_hold(
    live: list[Node], specs: dict[str, AllocationSpec]
) -> None:
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


def packed(pod: Resources, live: list[Node], daemons: list[DaemonSet]) -> int:
    """How many of these pods the healthy nodes of a type hold together."""
    count = 0
    for one in filter(capacity.is_healthy, live):
        taken = daemon_requests(tuple(daemons), one)
        has = {
            name: max(0, amount(name, one.status.allocatable[name]) - taken[name]) for name in pod
        }
        count += min(has[name] // value for name, value in pod.items() if value)
    return count


def admitted(pod: Resources, quota: Resources) -> int:
    return min(quota[name] // value for name, value in pod.items() if value)


sizes = st.builds(
    node,
    gpus=st.integers(1, 16),
    cpu=st.integers(1000, 400_000).map("{}m".format),
    memory=st.integers(2**34, 2**44).map(str),
    ready=st.sampled_from(["True", "True", "False"]),
)
daemons = st.lists(st.just(daemon()), max_size=3)


@given(st.lists(sizes, min_size=1, max_size=8), daemons)
def test_pods_of_one_accelerator_and_its_share_of_a_node_all_find_room(
    live: list[Node], agents: list[DaemonSet]
) -> None:
    supply = supplies([P5], live, agents)["p5"]
    pod = Counter({name: value // supply.whole[GPU] for name, value in supply.whole.items()})
    assert admitted(pod, supply.healthy) <= packed(pod, live, agents)


@given(st.lists(sizes, min_size=1, max_size=8), st.integers(0, 16), daemons)
def test_whole_node_pods_all_find_room_where_no_node_has_lost_an_accelerator(
    live: list[Node], gpus: int, agents: list[DaemonSet]
) -> None:
    alike = [
        replace(one, status=replace(one.status, allocatable={**one.status.allocatable, GPU: gpus}))
        for one in live
    ]
    supply = supplies([P5], alike, agents)["p5"]
    assert not supply.damaged
    if +supply.whole:
        assert admitted(supply.whole, supply.healthy) <= packed(supply.whole, alike, agents)


ONE = "nvidia.com/mig-1g.10gb"
THREE = "nvidia.com/mig-3g.40gb"
MIG = P5.model_copy(update={"partitions": {ONE: 28, THREE: 8}})
LAYOUTS = [
    {GPU: gpus, ONE: ones, THREE: threes}
    for gpus, ones, threes in ((8, 0, 0), (0, 56, 0), (0, 0, 16), (0, 32, 8), (4, 28, 0))
]
partitioned = st.lists(
    st.builds(
        lambda live, parts: replace(
            live, status=replace(live.status, allocatable=live.status.allocatable | parts)
        ),
        sizes,
        st.one_of(
            st.sampled_from(LAYOUTS),
            st.fixed_dictionaries({ONE: st.integers(0, 56), THREE: st.integers(0, 16)}),
        ),
    ),
    min_size=1,
    max_size=12,
)
of_partitions = st.builds(
    lambda gpus, one, three: AllocationSpec.model_validate(
        {
            "quotas": [
                {"instanceType": "p5", "accelerators": gpus, "partitions": {ONE: one, THREE: three}}
            ],
        }
    ),
    st.integers(0, 64),
    st.integers(0, 200),
    st.integers(0, 99),
)


@given(partitioned, st.lists(of_partitions, max_size=4))
def test_quotas_of_partitions_never_promise_more_than_healthy_nodes_hold(
    live: list[Node], specs: list[AllocationSpec]
) -> None:
    supply = supplies([MIG], live)
    shares = shared_out(
        {str(number): owned(spec, supply) for number, spec in enumerate(specs)}, supply
    )
    for resource in supply["p5"].resources:
        key = ("p5", resource)
        given_out = sum(quota[key] for quota in shares.granted.values()) + shares.unallocated[key]
        assert given_out <= sum(
            amount(resource, one.status.allocatable[resource])
            for one in live
            if capacity.is_healthy(one)
        )
        assert (
            min([shares.unallocated[key], *(quota[key] for quota in shares.granted.values())]) >= 0
        )


def test_nodes_partitioned_in_three_ways_promise_what_each_of_them_offers() -> None:
    offers = [(0, 32, 8), (0, 56, 0), *5 * [(0, 0, 16)]]
    has = node().status.allocatable
    live = [
        replace(
            node(), status=replace(node().status, allocatable={**has, GPU: g, ONE: o, THREE: t})
        )
        for g, o, t in offers
    ]
    healthy = supplies([MIG], live)["p5"].healthy
    assert (healthy[GPU], healthy[ONE], healthy[THREE]) == (0, 32 + 56, 8 + 5 * 16)


@given(partitioned, st.sampled_from([GPU, ONE, THREE]))
def test_pods_of_one_kind_of_partition_and_its_share_of_a_node_all_find_room(
    live: list[Node], kind: str
) -> None:
    supply = supplies([MIG], live)["p5"]
    part = capacity.slices(MIG, {kind: 1})
    pod = Counter(
        {
            kind: 1,
            **{
                name: supply.whole[name] * part // supply.whole_slices
                for name in ("cpu", "memory")
                if supply.whole_slices
            },
        }
    )
    assert admitted(pod, supply.healthy) <= packed(pod, live, [])


@given(nodes, specs)
def test_a_borrowing_limit_is_never_negative(live: list[Node], spec: AllocationSpec) -> None:
    supply = supplies([P5, G6], live)
    limits = capacity.borrowing_limits(spec, owned(spec, supply), supply)
    assert limits is None or min(limits.values(), default=0) >= 0


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10**15)), st.integers(0, 10**15))
def test_a_division_gives_out_all_there_is_and_no_more(
    wishes: dict[str, int], available: int
) -> None:
    out = divided(wishes, available)
    assert sum(out.values()) == min(available, sum(wishes.values()))
    assert all(0 <= out[name] <= wish for name, wish in wishes.items())
