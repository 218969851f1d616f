"""A real API server refuses invalid policies and allocations, and its message has the cure."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cede.api.objects import ALLOCATIONS, POLICIES, Json, Kind
from cede.kube.client import Client
from cede.kube.connection import connect
from cede.kube.errors import Invalid

pytestmark = pytest.mark.cluster

TYPE = {"name": "t", "accelerators": 8}
CLASS = {"name": "training", "weight": 50}
QUOTA = {"instanceType": "local-4gpu", "count": 1}


@pytest.fixture
async def client(cluster: Any) -> AsyncIterator[Client]:
    async with connect(manager="test", kubeconfig=str(cluster.kubeconfig)) as client:
        yield client


async def refusal(client: Client, kind: Kind, name: str, spec: Json) -> str:
    """The API server's message when the object is created."""
    with pytest.raises(Invalid) as error:
        await client.create(kind, {"metadata": {"name": name}, "spec": spec})
    return error.value.message


@pytest.mark.parametrize(
    ("name", "spec", "cure"),
    [
        pytest.param("second", {}, "it is named default: change that one", id="a second policy"),
        pytest.param(
            "default",
            {"priorityClasses": [{"name": "a", "weight": 101}]},
            "less than or equal to 100",
            id="weight",
        ),
        pytest.param(
            "default", {"priorityClasses": [CLASS, CLASS]}, "Duplicate value", id="a class twice"
        ),
        pytest.param(
            "default",
            {"priorityClasses": [{"name": f"c{i}", "weight": i} for i in range(11)]},
            "at most 10 items",
            id="11 classes",
        ),
        pytest.param(
            "default",
            {"priorityClasses": [CLASS], "defaultPriorityClass": "vip"},
            "add a class of that name, or name one of them",
            id="unknown default class",
        ),
        pytest.param(
            "default", {"instanceTypes": [TYPE, TYPE]}, "Duplicate value", id="a type twice"
        ),
        pytest.param(
            "default",
            {"instanceTypes": [{**TYPE, "cpu": "many"}]},
            "write it like 4, 500m or 16Gi",
            id="no amount",
        ),
        pytest.param(
            "default",
            {"instanceTypes": [{**TYPE, "memory": "-1Gi"}]},
            "not below zero",
            id="below zero",
        ),
        pytest.param(
            "default",
            {"instanceTypes": [{**TYPE, "name": "a..b"}]},
            "should match",
            id="a name that Kueue would refuse",
        ),
        pytest.param(
            "default",
            {"instanceTypes": [{**TYPE, "accelerator": "cpu"}]},
            "should match",
            id="CPU is no accelerator",
        ),
        pytest.param(
            "default",
            {"instanceTypes": [{**TYPE, "nodeLabels": {"a b": "c"}}]},
            "not the key of a label",
            id="label",
        ),
        pytest.param(
            "default",
            {"instanceTypes": [{**TYPE, "nodeLabels": {"a": "b c"}}]},
            "should match",
            id="label value",
        ),
        pytest.param(
            "default",
            {"preemption": {"graceSeconds": 601}},
            "lower it or raise maxGraceSeconds",
            id="grace above its maximum",
        ),
        pytest.param(
            "default", {"mode": "Sometimes"}, 'supported values: "Enforce", "Observe"', id="mode"
        ),
    ],
)
async def test_an_invalid_policy_is_refused(
    client: Client, name: str, spec: Json, cure: str
) -> None:
    assert cure in await refusal(client, POLICIES, name, spec)


@pytest.mark.parametrize(
    ("name", "spec", "cure"),
    [
        pytest.param(
            "a", {"quotas": [{**QUOTA, "cpu": 1}]}, "one of the two", id="count and amounts"
        ),
        pytest.param("a", {"quotas": [{"instanceType": "t"}]}, "one of the two", id="neither"),
        pytest.param("a", {"quotas": [QUOTA, QUOTA]}, "Duplicate value", id="a type twice"),
        pytest.param(
            "a",
            {"quotas": [{**QUOTA, "instanceType": f"t{i}"} for i in range(16)]},
            "at most 15 items",
            id="16 types",
        ),
        pytest.param(
            "a",
            {"sharing": {"borrowLimitPercent": 5, "borrowLimits": [QUOTA]}},
            "borrowLimitPercent or borrowLimits",
            id="two limits",
        ),
        pytest.param(
            "a",
            {"sharing": {"strategy": "Lend", "borrowLimitPercent": 5}},
            "needs strategy LendAndBorrow",
            id="limit without borrowing",
        ),
        pytest.param(
            "a",
            {"sharing": {"strategy": "Lend", "borrowLimits": [QUOTA]}},
            "needs strategy LendAndBorrow",
            id="limits in amounts without borrowing",
        ),
        pytest.param("a", {"fairShareWeight": 101}, "less than or equal to 100", id="weight"),
        pytest.param(
            "a",
            {"namespace": {"name": "kube-system", "adopt": True}},
            "give the team one of its own",
            id="a namespace of the cluster",
        ),
        pytest.param(
            "a",
            {"namespace": {"name": "gpu-operator", "adopt": True}},
            "give the team one of its own",
            id="a namespace of a platform",
        ),
        pytest.param(
            "a",
            {"namespace": {"name": "kubeflow", "adopt": True}},
            "give the team one of its own",
            id="a namespace of controllers",
        ),
        pytest.param(
            "a",
            {"team": "default"},
            "name another by namespace.name",
            id="a team with the name of such a namespace",
        ),
        pytest.param("default", {}, "name the allocation after its team", id="reserved name"),
        pytest.param("a.b", {}, "letters a-z, digits and hyphens", id="dots in the name"),
        pytest.param(
            "a",
            {"members": [{"kind": "Robot", "name": "x"}]},
            'supported values: "User"',
            id="member",
        ),
    ],
)
async def test_an_invalid_allocation_is_refused(
    client: Client, name: str, spec: Json, cure: str
) -> None:
    assert cure in await refusal(client, ALLOCATIONS, name, spec)
