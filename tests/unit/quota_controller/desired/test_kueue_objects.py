"""The queues, flavors, topologies and priority classes that a policy and allocations become."""

import msgspec
import pytest

from cede.api.kueue import Workload
from cede.api.names import FINISHED, GPU
from cede.api.objects import PRIORITY_CLASSES, TOPOLOGIES, Json
from quota_controller.desired.kueue_objects import (
    WEIGHT,
    classes_in_use,
    removed_classes,
    types_with_old_topology,
)
from quota_controller.desired.plan import make_plan
from tests.builders.quotas import (
    allocation,
    as_live,
    find_object,
    node,
    policy,
    queue_spec,
    quota_entries,
    snapshot,
)


def test_the_queue_has_what_the_allocation_says() -> None:
    team = allocation(sharing={"borrowLimitPercent": 50}, fairShareWeight=7)
    spec = queue_spec(make_plan(snapshot([team], nodes=[node()])))
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
def test_limits_by_strategy(strategy: str, borrowing: str | None, lending: str | None) -> None:
    team = allocation(sharing={"strategy": strategy})
    spec = queue_spec(make_plan(snapshot([team], nodes=[node()])))
    for entry in quota_entries(spec).values():
        assert (entry.get("borrowingLimit"), entry.get("lendingLimit")) == (borrowing, lending)


@pytest.mark.parametrize(
    ("leader", "mode", "own", "expected"),
    [
        pytest.param("s", "Enforce", "LowerPriority", ("Never", "Never"), id="Cede preempts"),
        pytest.param("", "Enforce", "LowerPriority", ("Any", "LowerPriority"), id="no leader"),
        pytest.param("s", "Observe", "LowerPriority", ("Any", "LowerPriority"), id="Observe"),
        pytest.param("", "Enforce", "Never", ("Any", "Never"), id="never within the team"),
    ],
)
def test_who_preempts(leader: str, mode: str, own: str, expected: tuple[str, str]) -> None:
    team = allocation(preemptOwnTasks=own)
    plan = make_plan(snapshot([team], cluster_policy=policy(mode=mode), leader=leader))
    preemption = queue_spec(plan)["preemption"]
    assert (preemption["reclaimWithinCohort"], preemption["withinClusterQueue"]) == expected


@pytest.mark.parametrize(("shared", "expected"), [(True, "8"), (False, "0")])
def test_shared_unallocated_capacity_is_quota_of_the_cohort(shared: bool, expected: str) -> None:
    cluster_policy = policy(shareUnallocated=shared)
    nodes = [node("a"), node("b")]
    plan = make_plan(snapshot([allocation()], cluster_policy=cluster_policy, nodes=nodes))
    cohort = find_object(plan, "Cohort", "cede").body["spec"]
    assert quota_entries(cohort)[GPU]["nominalQuota"] == expected


def test_two_kinds_of_accelerator_are_in_one_resource_group() -> None:
    types = [
        {"name": "p5", "accelerators": 8},
        {"name": "trn", "accelerator": "aws.amazon.com/neuron", "accelerators": 16},
    ]
    plan = make_plan(snapshot([allocation()], cluster_policy=policy(instanceTypes=types)))
    [group] = queue_spec(plan)["resourceGroups"]
    resources = ["aws.amazon.com/neuron", GPU, "cpu", "memory"]
    assert group["coveredResources"] == resources
    [flavor] = group["flavors"]
    assert flavor["name"] == "p5", "a type that the allocation does not name is not in its queue"
    assert [entry["name"] for entry in flavor["resources"]] == resources, "Kueue requires one order"


def test_first_come_gives_all_classes_and_teams_the_same_weight() -> None:
    cluster_policy = policy(ordering="FirstCome", idleCompute="FirstCome")
    plan = make_plan(snapshot([allocation()], cluster_policy=cluster_policy))
    assert [d.body["value"] for d in plan.objects if d.kind == PRIORITY_CLASSES] == [0, 0]
    assert queue_spec(plan)["fairSharing"] == {"weight": "1"}


@pytest.mark.parametrize(("ordering", "value"), [("Priority", 10), ("FirstCome", 0)])
def test_a_class_that_the_policy_has_no_more_stays_as_it_is(ordering: str, value: int) -> None:
    """Kueue resolves it again for scale-up slices and for new pods of servers."""
    before = as_live(make_plan(snapshot()))
    classes = [{"name": "training", "weight": 50}]
    changed = policy(priorityClasses=classes, ordering=ordering)
    plan = make_plan(snapshot(cluster_policy=changed, live=before))
    assert find_object(plan, "WorkloadPriorityClass", "sweep").body["value"] == value
    assert plan.unwanted(before) == []


def test_a_class_that_was_removed_has_its_weight_again_after_first_come() -> None:
    classes = [{"name": "training", "weight": 50}]
    live = as_live(make_plan(snapshot()))
    for ordering, value in (("Priority", 10), ("FirstCome", 0), ("FirstCome", 0), ("Priority", 10)):
        changed = policy(priorityClasses=classes, ordering=ordering)
        plan = make_plan(snapshot(cluster_policy=changed, live=live))
        assert find_object(plan, "WorkloadPriorityClass", "sweep").body["value"] == value
        live = as_live(plan)


@pytest.mark.parametrize("note", [None, "", "-1", "many", "1" * 9999])
def test_without_its_weight_a_class_that_was_removed_keeps_its_value(note: str | None) -> None:
    """As one that an earlier version has written, or that somebody has edited."""
    live = as_live(make_plan(snapshot()))
    sweep = live[PRIORITY_CLASSES, ("", "sweep")]
    metadata = {**sweep["metadata"], "annotations": {WEIGHT: note} if note is not None else {}}
    live[PRIORITY_CLASSES, ("", "sweep")] = {**sweep, "metadata": metadata}
    plan = make_plan(snapshot(cluster_policy=policy(priorityClasses=[]), live=live))
    assert find_object(plan, "WorkloadPriorityClass", "sweep").body["value"] == 10


def test_a_class_of_somebody_else_is_none_that_was_removed() -> None:
    other = {(PRIORITY_CLASSES, ("", "theirs")): {"metadata": {"name": "theirs"}, "value": 7}}
    assert removed_classes(policy().spec, other) == {}


IS_FINISHED = {"type": FINISHED, "status": "True"}


@pytest.mark.parametrize(
    ("status", "in_use"),
    [
        pytest.param({}, {"sweep"}, id="waits or runs"),
        pytest.param(
            {"conditions": [{"type": FINISHED, "status": "True"}]}, set(), id="has finished"
        ),
    ],
)
def test_a_workload_uses_its_class_until_it_has_finished(status: Json, in_use: set[str]) -> None:
    spec = {"priorityClassRef": {"kind": "WorkloadPriorityClass", "name": "sweep"}}
    workload = msgspec.convert({"spec": spec, "status": status}, Workload)
    assert classes_in_use([workload, Workload()]) == in_use


def test_the_queue_of_an_inactive_allocation_is_on_hold() -> None:
    plan = make_plan(snapshot([allocation(active=False)]))
    assert queue_spec(plan)["stopPolicy"] == "Hold"


# --- topology -------------------------------------------------------------------------------------
def test_all_flavors_refer_to_the_topology() -> None:
    cluster_policy = policy(topology=["rack", "kubernetes.io/hostname"])
    plan = make_plan(snapshot(cluster_policy=cluster_policy))
    [topology] = [d for d in plan.objects if d.kind == TOPOLOGIES]
    assert topology.body["spec"] == {
        "levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    }
    flavor = find_object(plan, "ResourceFlavor", "p5")
    assert flavor.body["spec"]["topologyName"] == topology.key[1]


@pytest.mark.parametrize("topology", [["block"], []], ids=["another", "none any more"])
def test_a_flavor_keeps_its_topology(topology: list[str]) -> None:
    """Kueue rejects a change of it."""
    before = as_live(make_plan(snapshot(cluster_policy=policy(topology=["rack"]))))
    changed = policy(topology=topology)
    plan = make_plan(snapshot(cluster_policy=changed, live=before))
    flavor = find_object(plan, "ResourceFlavor", "p5")
    assert flavor.matches(before[flavor.object_id])
    assert not plan.unwanted(before), "the topology that a flavor refers to is not deleted"
    assert types_with_old_topology(changed, before) == ["p5"], "the policy's status reports it"
    assert types_with_old_topology(policy(topology=["rack"]), before) == []
