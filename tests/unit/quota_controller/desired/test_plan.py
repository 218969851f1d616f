"""(policy, allocations, nodes) → what should exist, what should not, and what stands in the way."""

from collections.abc import Iterable
from typing import Any

import pytest

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Node
from cede.api.names import GPU
from cede.api.objects import CLUSTER_QUEUES, COHORTS, PRIORITY_CLASSES, TOPOLOGIES, Json
from cede.api.policy import ClusterPolicy
from elastic_runtime.contract import derive_key
from quota_controller.desired.conflicts import Live
from quota_controller.desired.kueue_objects import Target, keeps_old_topology
from quota_controller.desired.plan import Plan, Seen, plan
from tests.unit.quota_controller.desired.test_capacity import node

ROOT = b"root"


def policy(**spec: Any) -> ClusterPolicy:
    types = [{"name": "p5", "accelerators": 8, "cpu": "190", "memory": "1900Gi"}]
    classes = [{"name": "training", "weight": 50}, {"name": "sweep", "weight": 10}]
    return ClusterPolicy.model_validate(
        {
            "metadata": {"name": "default"},
            "spec": {"instanceTypes": types, "priorityClasses": classes, **spec},
        }
    )


def allocation(name: str = "vision", *, going: bool = False, **spec: Any) -> ComputeAllocation:
    meta = {
        "name": name,
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    if going:
        meta["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    quotas = [{"instanceType": "p5", "count": 1}]
    return ComputeAllocation.model_validate({"metadata": meta, "spec": {"quotas": quotas, **spec}})


def seen(
    allocations: Iterable[ComputeAllocation] = (),
    *,
    found: ClusterPolicy | None = None,
    nodes: Iterable[Node] = (),
    live: Live | None = None,
    leader: str = "cede-scheduler-0",
    without_policy: bool = False,
) -> Seen:
    return Seen(
        None if without_policy else found or policy(),
        tuple(allocations),
        tuple(nodes),
        (),
        live or {},
        leader,
        ROOT,
    )


def as_live(decided: Plan, **status: Json) -> dict[Any, Json]:
    """What a server would hold after the plan was applied."""
    live = {
        (t.kind, t.key): {**t.body, "metadata": {**t.body["metadata"], "uid": "u"}}
        for t in decided.targets
    }
    for name, value in status.items():
        live[CLUSTER_QUEUES, ("", name)]["status"] = value
    return live


def queue(decided: Plan, name: str = "vision") -> Json:
    found: Json = only(decided, "ClusterQueue", name).body["spec"]
    return found


def only(decided: Plan, kind: str, name: str) -> Target:
    [found] = [t for t in decided.targets if t.kind.kind == kind and t.key[1] == name]
    return found


def amounts(spec: Json) -> dict[str, Any]:
    [group] = spec["resourceGroups"]
    return {entry["name"]: entry for entry in group["flavors"][0]["resources"]}


def test_one_allocation_makes_all_a_team_needs() -> None:
    decided = plan(seen([allocation(members=[{"kind": "Group", "name": "vision-team"}])]))
    assert [t.words for t in decided.targets] == [
        "ResourceFlavor p5",
        "Cohort cede",
        "WorkloadPriorityClass training",
        "WorkloadPriorityClass sweep",
        "ClusterRoleBinding cede-members",
        "ClusterQueue vision",
        "Namespace vision",
        "LocalQueue default in namespace vision",
        "Service cede-peers in namespace vision",
        "Secret cede-control in namespace vision",
        "RoleBinding cede-members in namespace vision",
    ]
    assert all(t.body["metadata"]["labels"][names.ALLOCATION] == t.owner for t in decided.targets)
    assert not decided.problems


def test_the_queue_says_what_the_allocation_means() -> None:
    spec = queue(
        plan(
            seen(
                [allocation(sharing={"borrowLimitPercent": 50}, fairShareWeight=7)], nodes=[node()]
            )
        )
    )
    assert spec == {
        "cohortName": "cede",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "vision"}},
        "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
        "fairSharing": {"weight": "7"},
        "stopPolicy": "None",
        "resourceGroups": [
            {
                "coveredResources": [GPU, "cpu", "memory"],
                "flavors": [
                    {
                        "name": "p5",
                        "resources": [
                            {"name": GPU, "nominalQuota": "8", "borrowingLimit": "4"},
                            {"name": "cpu", "nominalQuota": "180", "borrowingLimit": "90"},
                            {"name": "memory", "nominalQuota": "1800Gi", "borrowingLimit": "900Gi"},
                        ],
                    }
                ],
            }
        ],
    }
    assert "queueingStrategy" not in spec, "that field is the scheduler's"


@pytest.mark.parametrize(
    ("strategy", "borrowing", "lending"),
    [
        pytest.param("LendAndBorrow", None, None, id="lends all, borrows without limit"),
        pytest.param("Lend", "0", None, id="lends all, borrows nothing"),
        pytest.param("DontLend", "0", "0", id="neither"),
    ],
)
def test_strategies(strategy: str, borrowing: str | None, lending: str | None) -> None:
    found = amounts(queue(plan(seen([allocation(sharing={"strategy": strategy})], nodes=[node()]))))
    for entry in found.values():
        assert (entry.get("borrowingLimit"), entry.get("lendingLimit")) == (borrowing, lending)


@pytest.mark.parametrize(
    ("leader", "mode", "own", "expected"),
    [
        pytest.param("s", "Enforce", "LowerPriority", ("Never", "Never"), id="Cede takes back"),
        pytest.param(
            "", "Enforce", "LowerPriority", ("Any", "LowerPriority"), id="no scheduler leads"
        ),
        pytest.param(
            "s", "Observe", "LowerPriority", ("Any", "LowerPriority"), id="only observing"
        ),
        pytest.param("", "Enforce", "Never", ("Any", "Never"), id="never within the team"),
    ],
)
def test_who_preempts(leader: str, mode: str, own: str, expected: tuple[str, str]) -> None:
    found = queue(
        plan(seen([allocation(preemptOwnTasks=own)], found=policy(mode=mode), leader=leader))
    )["preemption"]
    assert (found["reclaimWithinCohort"], found["withinClusterQueue"]) == expected


@pytest.mark.parametrize(("shared", "expected"), [(True, "8"), (False, "0")])
def test_what_is_in_no_allocation_is_the_cohorts(shared: bool, expected: str) -> None:
    decided = plan(
        seen([allocation()], found=policy(shareUnallocated=shared), nodes=[node("a"), node("b")])
    )
    assert amounts(only(decided, "Cohort", "cede").body["spec"])[GPU]["nominalQuota"] == expected


def test_two_kinds_of_accelerator_are_covered_in_one_group() -> None:
    types = [
        {"name": "p5", "accelerators": 8},
        {"name": "trn", "accelerator": "aws.amazon.com/neuron", "accelerators": 16},
    ]
    [group] = queue(plan(seen([allocation()], found=policy(instanceTypes=types))))["resourceGroups"]
    assert group["coveredResources"] == ["aws.amazon.com/neuron", GPU, "cpu", "memory"]
    assert [r["name"] for r in group["flavors"][0]["resources"]] == group["coveredResources"], (
        "Kueue wants one order"
    )
    assert [flavor["name"] for flavor in group["flavors"]] == ["p5"], (
        "no work lands on a type the team never named"
    )


def test_the_first_come_orderings() -> None:
    decided = plan(
        seen([allocation()], found=policy(ordering="FirstCome", idleCompute="FirstCome"))
    )
    assert [t.body["value"] for t in decided.targets if t.kind == PRIORITY_CLASSES] == [0, 0]
    assert queue(decided)["fairSharing"] == {"weight": "1"}


def test_an_allocation_that_is_not_active_is_held() -> None:
    assert queue(plan(seen([allocation(active=False)])))["stopPolicy"] == "Hold"


def test_each_namespace_has_a_key_of_its_own() -> None:
    decided = plan(seen([allocation("a"), allocation("b")]))
    keys = {t.key[0]: t.body["data"]["key"] for t in decided.targets if t.kind.kind == "Secret"}
    assert keys["a"] != keys["b"]
    assert derive_key(ROOT, "a") != derive_key(ROOT, "b")


# --- without a policy -----------------------------------------------------------------------------
def test_without_a_policy_quotas_stay_as_they_are_and_kueue_takes_back() -> None:
    before = as_live(plan(seen([allocation()])))
    assert (
        before[CLUSTER_QUEUES, ("", "vision")]["spec"]["preemption"]["reclaimWithinCohort"]
        == "Never"
    )
    decided = plan(seen([allocation()], live=before, without_policy=True))
    [found] = decided.targets
    stock = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    assert found.body["spec"] == before[CLUSTER_QUEUES, ("", "vision")]["spec"] | {
        "preemption": stock
    }
    assert (decided.unwanted(before), decided.abandoned) == ([], ())
    assert decided.problems["vision"][0] == "NoPolicy"


def test_without_policy_and_allocations_nothing_of_ours_is_left() -> None:
    before = as_live(plan(seen([])))
    gone = {
        kind for kind, _, _ in plan(seen([], live=before, without_policy=True)).unwanted(before)
    }
    assert COHORTS in gone


# --- change and delete ----------------------------------------------------------------------------
STOPPED = {"type": "Active", "status": "False", "reason": "Stopped"}


@pytest.mark.parametrize("without_policy", [False, True])
def test_a_deleted_allocation_is_held_first(without_policy: bool) -> None:
    before = as_live(plan(seen([allocation()])), vision={"reservingWorkloads": 1})
    decided = plan(seen([allocation(going=True)], live=before, without_policy=without_policy))
    assert queue(decided)["stopPolicy"] == "Hold"
    assert amounts(queue(decided)) == amounts(before[CLUSTER_QUEUES, ("", "vision")]["spec"])
    assert not decided.leaving
    assert not decided.unwanted(before)


@pytest.mark.parametrize(
    ("status", "gone"),
    [
        pytest.param({}, False, id="Kueue has not seen the hold"),
        pytest.param({"conditions": [STOPPED], "reservingWorkloads": 1}, False, id="work runs"),
        pytest.param({"conditions": [STOPPED], "reservingWorkloads": 0}, True, id="drained"),
    ],
)
@pytest.mark.parametrize("without_policy", [False, True])
def test_it_goes_when_nothing_holds_its_quota(
    status: Json, gone: bool, without_policy: bool
) -> None:
    going = allocation(going=True)
    before = as_live(plan(seen([going], live=as_live(plan(seen([allocation()]))))), vision=status)
    decided = plan(seen([going], live=before, without_policy=without_policy))
    assert ("vision" in decided.leaving) is gone
    removed = {kind.kind for kind, _, _ in decided.unwanted(before)}
    assert removed - {"ResourceFlavor", "Cohort", "WorkloadPriorityClass"} == (
        {"ClusterQueue", "LocalQueue", "Service", "Secret"} if gone else set()
    )
    assert bool(decided.abandoned) is gone, "the namespace stays, without our labels"
    assert not removed & {"ResourceFlavor", "Cohort"}


def test_what_is_applied_is_what_is_wanted() -> None:
    decided = plan(seen([allocation(), allocation("research")], nodes=[node()]))
    live = as_live(decided)
    again = plan(seen([allocation(), allocation("research")], nodes=[node()], live=live))
    assert all(t.is_said_by(live[t.kind, t.key]) for t in again.targets)
    assert not again.unwanted(live)


def test_a_topology_is_named_by_all_flavors() -> None:
    decided = plan(seen(found=policy(topology=["rack", "kubernetes.io/hostname"])))
    [topology] = [t for t in decided.targets if t.kind == TOPOLOGIES]
    assert topology.body["spec"] == {
        "levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    }
    assert only(decided, "ResourceFlavor", "p5").body["spec"]["topologyName"] == topology.key[1]


@pytest.mark.parametrize("topology", [["block"], []], ids=["another", "none any more"])
def test_a_flavor_keeps_the_topology_it_has(topology: list[str]) -> None:
    before = as_live(plan(seen(found=policy(topology=["rack"]))))
    now = policy(topology=topology)
    decided = plan(seen(found=now, live=before))
    flavor = only(decided, "ResourceFlavor", "p5")
    assert flavor.is_said_by(before[flavor.kind, flavor.key]), "Kueue would refuse a change"
    assert not [kind for kind, _, _ in decided.unwanted(before)], "what a flavor names stays"
    assert keeps_old_topology(now, before) == ["p5"], "the policy's status says so"
    assert keeps_old_topology(policy(topology=["rack"]), before) == []
