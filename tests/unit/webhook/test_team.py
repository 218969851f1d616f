"""What the webhook knows of a namespace's team."""

from collections import Counter
from typing import Any

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import LocalQueue, LocalQueueSpec
from cede.api.objects import Meta
from cede.api.policy import ClusterPolicy
from webhook.admission import Team
from webhook.team import nodes_of, team_of


def allocation(name: str, **spec: Any) -> ComputeAllocation:
    return ComputeAllocation.model_validate({"metadata": {"name": name}, "spec": spec})


def queue(namespace: str, name: str, target: str) -> LocalQueue:
    return LocalQueue(Meta(name=name, namespace=namespace), LocalQueueSpec(clusterQueue=target))


def test_a_team_is_what_its_allocation_and_the_policy_say() -> None:
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
    assert team_of("see", policy, allocations, queues) == Team(
        name="vision",
        classes={"high": 9, "low": 1},
        default_class="low",
        ceiling="low",
        queues=frozenset({"default"}),
        accelerators=frozenset({"nvidia.com/gpu", "amd.com/gpu", "amd.com/part"}),
        nodes={"mi300": Counter()},
        grace_s=30,
        max_grace_s=90,
    )


def test_a_namespace_of_which_nothing_is_known_yet_is_checked_for_nothing() -> None:
    assert team_of("new", None, [], []) == Team(name="new")


def test_what_a_node_has_is_what_the_policys_status_says_and_what_it_does_not_say_is_not_known() -> (
    None
):
    types = [{"name": "p5"}, {"name": "ordered"}]
    status = {
        "instanceTypes": [
            {"name": "p5", "whole": {"nvidia.com/gpu": "8", "cpu": "190", "memory": "1Ti"}},
            {"name": "gone"},
        ]
    }
    policy = ClusterPolicy.model_validate(
        {"metadata": {"name": "default"}, "spec": {"instanceTypes": types}, "status": status}
    )
    assert nodes_of(policy) == {
        "p5": Counter({"nvidia.com/gpu": 8, "cpu": 190_000, "memory": 1 << 40}),
        "ordered": Counter(),
    }


def test_of_two_allocations_for_one_namespace_the_one_that_has_it_counts() -> None:
    refused, holds = (
        ComputeAllocation.model_validate(
            {
                "metadata": {"name": name},
                "spec": {"namespace": {"name": "see"}},
                "status": {"namespace": has},
            }
        )
        for name, has in (("aa", ""), ("vision", "see"))
    )
    assert team_of("see", None, [refused, holds], []).name == "vision"


def test_under_a_ceiling_that_is_no_class_any_more_only_the_least_is_allowed() -> None:
    team = Team(classes={"high": 9, "low": 1}, ceiling="gone")
    assert team.allowed == ["low"]
    assert Team(classes={"high": 9, "low": 1}).allowed == ["high", "low"]
