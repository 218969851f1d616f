"""Pods fit only on nodes that have the labels of all their flavors."""

from collections import Counter

import pytest

from cede.api.instance_type import InstanceType
from cede.api.resources import Quota, Resources
from scheduler.snapshot.free_capacity import NodeRoom
from scheduler.snapshot.node_room import Placement
from tests.builders.scheduler import GPU

A100, H100 = ("a100", GPU), ("h100", GPU)
TYPES = [
    InstanceType(name="a100", nodeLabels={"type": "a100"}),
    InstanceType(name="h100", nodeLabels={"type": "h100"}),
    InstanceType(name="east", nodeLabels={"zone": "east"}),
]


def node(name: str, gpus: int, cpu: int = 64_000, **labels: str) -> NodeRoom:
    return NodeRoom(name, labels, Resources({GPU: gpus, "cpu": cpu}))


NODES = (
    node("n1", 5, type="a100", zone="east"),
    node("n2", 3, type="a100"),
    node("n3", 8, type="h100"),
    node("n4", -2, type="a100"),
)


@pytest.mark.parametrize(
    ("per_pod", "expected"),
    [
        pytest.param({A100: 1}, 8, id="on the nodes of its flavor"),
        pytest.param({H100: 1}, 8, id="on those of another flavor"),
        pytest.param({A100: 2}, 3, id="a pod is on one node"),
        pytest.param({A100: 1, ("east", "cpu"): 1000}, 5, id="with the labels of both flavors"),
        pytest.param({A100: 1, ("a100", "cpu"): 32_000}, 4, id="with all its resources"),
        pytest.param({("foreign", GPU): 1}, 16, id="of a flavor unknown to the policy: anywhere"),
        pytest.param({A100: 1, H100: 0}, 8, id="a flavor of which it uses nothing does not count"),
        pytest.param({}, 0, id="nothing requested: no room is known"),
    ],
)
def test_pods_that_fit(per_pod: Quota, expected: int) -> None:
    assert Placement(NODES, TYPES).count_pods(Counter(per_pod)) == expected
