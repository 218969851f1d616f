"""A team's limits, from its allocation, the policy and its queues."""

from collections import Counter
from typing import Any

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import LocalQueue, LocalQueueSpec
from cede.api.objects import Meta
from cede.api.policy import ClusterPolicy
from cede.api.team_security import CONTROLLER_NAMESPACES
from webhook.team import Team, build_team, get_largest_nodes, is_accelerator


def allocation(name: str, **spec: Any) -> ComputeAllocation:
    return ComputeAllocation.model_validate({"metadata": {"name": name}, "spec": spec})


def queue(namespace: str, name: str, cluster_queue: str) -> LocalQueue:
    return LocalQueue(
        Meta(name=name, namespace=namespace), LocalQueueSpec(clusterQueue=cluster_queue)
    )


def test_a_team_has_the_limits_of_its_allocation_and_the_policy() -> None:
    policy = ClusterPolicy.model_validate(
        {
            "metadata": {"name": "default"},
            "spec": {
                "priorityClasses": [{"name": "high", "weight": 9}, {"name": "low", "weight": 1}],
                "defaultPriorityClass": "low",
                "instanceTypes": [
                    {
                        "name": "mi300",
                        "accelerator": "amd.com/gpu",
                        "partitions": {"amd.com/part": 8},
                    }
                ],
                "preemption": {"graceSeconds": 30, "maxGraceSeconds": 90},
            },
        }
    )
    allocations = [
        allocation("research"),
        allocation("vision", maxPriorityClass="low", namespace={"name": "see"}),
    ]
    queues = [
        queue("see", "default", "vision"),
        queue("see", "stolen", "research"),
        queue("research", "default", "research"),
    ]
    assert build_team("see", policy, allocations, queues) == Team(
        name="vision",
        classes={"high": 9, "low": 1},
        default_class="low",
        max_class="low",
        queues=frozenset({"default"}),
        accelerators=frozenset({"nvidia.com/gpu", "amd.com/gpu", "amd.com/part"}),
        nodes={"mi300": Counter()},
        grace_s=30,
        max_grace_s=90,
    )


def test_namespaces_of_controllers_that_the_policy_lists_are_added() -> None:
    """A list without kube-system made the controllers of Kubernetes strangers."""
    spec = {"security": {"controllerNamespaces": ["ci"]}}
    policy = ClusterPolicy.model_validate({"metadata": {"name": "default"}, "spec": spec})
    team = build_team("see", policy, [], [])
    assert team.controller_namespaces == {*CONTROLLER_NAMESPACES, "ci"}


def test_an_unknown_namespace_has_no_limits() -> None:
    assert build_team("new", None, [], []) == Team(name="new")


def test_the_largest_nodes_are_those_of_the_policys_status() -> None:
    """Types without a status are listed, because pods might fit on them."""
    types = [{"name": "p5"}, {"name": "ordered"}]
    status = {
        "instanceTypes": [
            {"name": "p5", "largestNode": {"nvidia.com/gpu": "8", "cpu": "190", "memory": "1Ti"}},
            {"name": "gone"},
        ]
    }
    policy = ClusterPolicy.model_validate(
        {"metadata": {"name": "default"}, "spec": {"instanceTypes": types}, "status": status}
    )
    assert get_largest_nodes(policy) == {
        "p5": Counter({"nvidia.com/gpu": 8, "cpu": 190_000, "memory": 1 << 40}),
        "ordered": Counter(),
    }


def test_the_removed_classes_are_those_of_the_policys_status() -> None:
    status = {"removedPriorityClasses": ["old"]}
    policy = ClusterPolicy.model_validate({"metadata": {"name": "default"}, "status": status})
    assert build_team("see", policy, [], []).removed_classes == {"old"}


def test_of_two_allocations_for_a_namespace_the_accepted_one_counts() -> None:
    refused, accepted = (
        ComputeAllocation.model_validate(
            {
                "metadata": {"name": name},
                "spec": {"namespace": {"name": "see"}},
                "status": {"namespace": namespace},
            }
        )
        for name, namespace in (("aa", ""), ("vision", "see"))
    )
    assert build_team("see", None, [refused, accepted], []).name == "vision"


def test_only_the_lowest_class_is_allowed_when_the_highest_one_is_gone() -> None:
    team = Team(classes={"high": 9, "low": 1}, max_class="gone")
    assert team.allowed_classes == ["low"]
    assert Team(classes={"high": 9, "low": 1}).allowed_classes == ["high", "low"]


def test_accelerators_are_those_of_the_policy_and_nvidias() -> None:
    team = Team(accelerators=frozenset({"amd.com/gpu"}))
    for resource in ("amd.com/gpu", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"):
        assert is_accelerator(resource, team)
    assert not is_accelerator("example.com/fpga", team)
