"""What an entry of an allocation amounts to, in nodes, amounts and partitions."""

import pytest

from cede.api.instance_type import InstanceType
from cede.api.names import GPU
from cede.api.team_quota import TypeQuota
from quota_controller.desired.capacity import capacities
from quota_controller.desired.quota_entries import entry_quota
from tests.builders.quotas import GI, MIG, MIXED, ONE_SLICE, P5, THREE_SLICES


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        pytest.param({"count": 2}, (16, 380_000, 3800), id="whole nodes"),
        pytest.param({"count": 0}, (0, 0, 0), id="none"),
        pytest.param({"accelerators": 4}, (4, 95_000, 950), id="others follow the accelerators"),
        pytest.param({"cpu": "19"}, (0, 19_000, 190), id="memory follows cpu, no accelerators"),
        pytest.param(
            {"memory": "190Gi"}, (0, 19_000, 190), id="cpu follows memory, no accelerators"
        ),
        pytest.param(
            {"accelerators": 4, "memory": "100Gi"}, (4, 95_000, 100), id="an explicit amount"
        ),
        pytest.param(
            {"accelerators": 1, "cpu": "1", "memory": "1Gi"}, (1, 1000, 1), id="all explicit"
        ),
    ],
)
def test_an_entry_in_nodes_or_amounts(
    entry: dict[str, object], expected: tuple[int, int, int]
) -> None:
    quota = entry_quota(
        TypeQuota.model_validate({"instanceType": "p5", **entry}), capacities([P5], [])["p5"]
    )
    assert (quota[GPU], quota["cpu"], quota["memory"] / GI) == expected


@pytest.mark.parametrize(
    ("type_", "entry", "expected"),
    [
        pytest.param(
            MIG,
            {"count": 1},
            {ONE_SLICE: 28, THREE_SLICES: 8, "cpu": 104_000, "memory": 1040 * GI},
            id="whole nodes",
        ),
        pytest.param(
            MIG,
            {"partitions": {ONE_SLICE: 26}},
            {ONE_SLICE: 26, "cpu": 52_000, "memory": 520 * GI},
            id="26 of 52 slices",
        ),
        pytest.param(
            MIG,
            {"partitions": {THREE_SLICES: 4}},
            {THREE_SLICES: 4, "cpu": 24_000, "memory": 240 * GI},
            id="a larger partition has more slices",
        ),
        pytest.param(
            MIG,
            {"partitions": {ONE_SLICE: 1}, "cpu": "8"},
            {ONE_SLICE: 1, "cpu": 8_000, "memory": 20 * GI},
            id="an explicit amount",
        ),
        pytest.param(
            MIXED,
            {"accelerators": 4},
            {GPU: 4, "cpu": 56_000, "memory": 560 * GI},
            id="a whole accelerator has 7 slices",
        ),
        pytest.param(
            MIXED,
            {"accelerators": 1, "partitions": {ONE_SLICE: 7}},
            {GPU: 1, ONE_SLICE: 7, "cpu": 28_000, "memory": 280 * GI},
            id="accelerators and partitions",
        ),
        pytest.param(
            MIG,
            {"partitions": {"nvidia.com/mig-7g.80gb": 1}},
            {},
            id="a partition that the type does not have",
        ),
    ],
)
def test_an_entry_in_partitions(
    type_: InstanceType, entry: dict[str, object], expected: dict[str, int]
) -> None:
    capacity = capacities([type_], [])[type_.name]
    quota = entry_quota(TypeQuota.model_validate({"instanceType": type_.name, **entry}), capacity)
    assert +quota == expected
    assert capacity.resources == (GPU, *sorted(type_.partitions), "cpu", "memory")


def test_a_type_without_accelerators_divides_by_nothing() -> None:
    cpu_only = InstanceType(name="c7", cpu="64", memory="128Gi")
    capacity = capacities([cpu_only], [])["c7"]
    quota = entry_quota(TypeQuota(instanceType="c7", accelerators=2), capacity)
    assert quota == {GPU: 2, "cpu": 0, "memory": 0}
