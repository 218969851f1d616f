"""What holds for quota on every cluster, whatever its nodes, DaemonSets and allocations."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cede.api.allocation import AllocationSpec
from cede.api.kueue import Node
from cede.api.names import GPU
from cede.api.pods import DaemonSet, daemon_requests
from cede.api.resources import Resources, amount
from quota_controller.desired.borrowing import borrowing_limits
from quota_controller.desired.capacity import CPU_AND_MEMORY, capacities, is_healthy, slices
from quota_controller.desired.grants import grant
from quota_controller.desired.quota_entries import owned_quota
from tests.builders.quotas import G6, P5, daemon_set, node

NODES = st.lists(
    st.builds(
        node,
        instance_type=st.sampled_from(["p5", "g6", "other"]),
        gpus=st.integers(0, 16),
        cpu=st.integers(0, 400_000).map("{}m".format),
        memory=st.integers(0, 2**44).map(str),
        ready=st.sampled_from(["True", "True", "False", "Unknown"]),
        cordoned=st.booleans(),
    ),
    max_size=8,
)
ENTRIES = st.one_of(
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
SPECS = st.builds(
    lambda p5, g6, percent: AllocationSpec.model_validate(
        {
            "quotas": [{"instanceType": "p5", **p5}, {"instanceType": "g6", **g6}],
            "sharing": {"borrowLimitPercent": percent},
        }
    ),
    ENTRIES,
    ENTRIES,
    st.one_of(st.none(), st.integers(0, 500)),
)


@given(NODES, st.dictionaries(st.sampled_from("abcdef"), SPECS, max_size=6))
def test_granted_quotas_never_exceed_the_healthy_nodes(
    nodes: list[Node], specs: dict[str, AllocationSpec]
) -> None:
    capacity_of = capacities([P5, G6], nodes)
    owned = {name: owned_quota(spec, capacity_of) for name, spec in specs.items()}
    grants = grant(owned, capacity_of)
    for type_name, capacity in capacity_of.items():
        for resource in capacity.resources:
            key = (type_name, resource)
            unallocated = grants.unallocated[key]
            granted = {name: quota[key] for name, quota in grants.usable.items()}
            assert all(0 <= value <= owned[name][key] for name, value in granted.items())
            assert unallocated >= 0
            if not capacity.declared_only:
                assert sum(granted.values()) + unallocated == capacity.healthy[resource]
            missing = sum(quota[key] for quota in owned.values()) - sum(granted.values())
            assert missing == 0 or unallocated == 0, "nothing is left while somebody lacks it"


@given(NODES, SPECS)
def test_a_borrowing_limit_is_never_negative(nodes: list[Node], spec: AllocationSpec) -> None:
    capacity_of = capacities([P5, G6], nodes)
    limits = borrowing_limits(spec, owned_quota(spec, capacity_of), capacity_of)
    assert limits is None or min(limits.values(), default=0) >= 0


# --- admitted pods find a node --------------------------------------------------------------------
def pods_on_nodes(pod: Resources, nodes: list[Node], daemons: list[DaemonSet]) -> int:
    """How many of these pods the healthy nodes can run together."""
    count = 0
    for healthy_node in filter(is_healthy, nodes):
        allocatable = healthy_node.status.allocatable
        taken = daemon_requests(tuple(daemons), healthy_node)
        available = {name: max(0, amount(name, allocatable[name]) - taken[name]) for name in pod}
        count += min(available[name] // value for name, value in pod.items() if value)
    return count


def pods_in_quota(pod: Resources, quota: Resources) -> int:
    """How many of these pods the quota admits."""
    return min(quota[name] // value for name, value in pod.items() if value)


P5_NODES = st.builds(
    node,
    gpus=st.integers(1, 16),
    cpu=st.integers(1000, 400_000).map("{}m".format),
    memory=st.integers(2**34, 2**44).map(str),
    ready=st.sampled_from(["True", "True", "False"]),
)
DAEMON_SETS = st.lists(st.just(daemon_set()), max_size=3)


@given(st.lists(P5_NODES, min_size=1, max_size=8), DAEMON_SETS)
def test_admitted_pods_of_one_accelerator_all_fit(
    nodes: list[Node], daemons: list[DaemonSet]
) -> None:
    """A pod that takes one accelerator and its share of a node."""
    capacity = capacities([P5], nodes, daemons)["p5"]
    whole_node = capacity.whole_node
    pod = Counter({name: value // whole_node[GPU] for name, value in whole_node.items()})
    assert pods_in_quota(pod, capacity.healthy) <= pods_on_nodes(pod, nodes, daemons)


@given(st.lists(P5_NODES, min_size=1, max_size=8), st.integers(0, 16), DAEMON_SETS)
def test_admitted_whole_node_pods_all_fit_if_no_accelerator_is_lost(
    nodes: list[Node], gpus: int, daemons: list[DaemonSet]
) -> None:
    same_gpus = [
        replace(n, status=replace(n.status, allocatable={**n.status.allocatable, GPU: gpus}))
        for n in nodes
    ]
    capacity = capacities([P5], same_gpus, daemons)["p5"]
    assert not capacity.degraded
    pod = capacity.whole_node
    if +pod:
        assert pods_in_quota(pod, capacity.healthy) <= pods_on_nodes(pod, same_gpus, daemons)


# --- partitions -----------------------------------------------------------------------------------
ONE_SLICE = "nvidia.com/mig-1g.10gb"
THREE_SLICES = "nvidia.com/mig-3g.40gb"
PARTITIONED_P5 = P5.model_copy(update={"partitions": {ONE_SLICE: 28, THREE_SLICES: 8}})
LAYOUTS = [
    {GPU: gpus, ONE_SLICE: one_slice, THREE_SLICES: three_slices}
    for gpus, one_slice, three_slices in (
        (8, 0, 0),
        (0, 56, 0),
        (0, 0, 16),
        (0, 32, 8),
        (4, 28, 0),
    )
]
PARTITIONED_NODES = st.lists(
    st.builds(
        lambda n, layout: replace(
            n, status=replace(n.status, allocatable=n.status.allocatable | layout)
        ),
        P5_NODES,
        st.one_of(
            st.sampled_from(LAYOUTS),
            st.fixed_dictionaries(
                {ONE_SLICE: st.integers(0, 56), THREE_SLICES: st.integers(0, 16)}
            ),
        ),
    ),
    min_size=1,
    max_size=12,
)
PARTITION_SPECS = st.builds(
    lambda gpus, one_slice, three_slices: AllocationSpec.model_validate(
        {
            "quotas": [
                {
                    "instanceType": "p5",
                    "accelerators": gpus,
                    "partitions": {ONE_SLICE: one_slice, THREE_SLICES: three_slices},
                }
            ],
        }
    ),
    st.integers(0, 64),
    st.integers(0, 200),
    st.integers(0, 99),
)


@given(PARTITIONED_NODES, st.lists(PARTITION_SPECS, max_size=4))
def test_granted_partitions_never_exceed_the_healthy_nodes(
    nodes: list[Node], specs: list[AllocationSpec]
) -> None:
    capacity_of = capacities([PARTITIONED_P5], nodes)
    owned = {str(number): owned_quota(spec, capacity_of) for number, spec in enumerate(specs)}
    grants = grant(owned, capacity_of)
    for resource in capacity_of["p5"].resources:
        key = ("p5", resource)
        shares = [grants.unallocated[key], *(quota[key] for quota in grants.usable.values())]
        allocatable = [
            amount(resource, n.status.allocatable[resource]) for n in nodes if is_healthy(n)
        ]
        assert sum(shares) <= sum(allocatable)
        assert min(shares) >= 0


@given(PARTITIONED_NODES, st.sampled_from([GPU, ONE_SLICE, THREE_SLICES]))
def test_admitted_pods_of_one_partition_all_fit(nodes: list[Node], resource: str) -> None:
    """A pod that takes one partition of a kind and its share of a node."""
    capacity = capacities([PARTITIONED_P5], nodes)["p5"]
    share = slices(PARTITIONED_P5, {resource: 1})
    pod = Counter({resource: 1})
    for name in CPU_AND_MEMORY:
        if capacity.whole_node_slices:
            pod[name] = capacity.whole_node[name] * share // capacity.whole_node_slices
    assert pods_in_quota(pod, capacity.healthy) <= pods_on_nodes(pod, nodes, [])
