"""(policy, allocations, nodes) → what should exist, what should not, and what is deleted when."""

from dataclasses import replace

import pytest

from cede.api import names
from cede.api.objects import CLUSTER_QUEUES, COHORTS, NAMESPACES, Json
from cede.api.reasons import AllocationReason
from cede.api.team_security import CONTROLLER_NAMESPACES
from elastic_runtime.contract import derive_key
from quota_controller.desired.plan import make_plan
from tests.builders.quotas import (
    ROOT_KEY,
    allocation,
    as_live,
    node,
    policy,
    queue_spec,
    quota_entries,
    snapshot,
)


def test_one_allocation_becomes_all_objects_of_a_team() -> None:
    members = [{"kind": "Group", "name": "vision-team"}]
    plan = make_plan(snapshot([allocation(members=members)]))
    assert [desired.display_name for desired in plan.objects] == [
        "ResourceFlavor p5",
        "Cohort cede",
        "WorkloadPriorityClass training",
        "WorkloadPriorityClass sweep",
        "ClusterRoleBinding cede-members",
        "ClusterQueue vision",
        "Namespace vision",
        "LocalQueue default in namespace vision",
        "Service cede-peers in namespace vision",
        "NetworkPolicy cede-elastic in namespace vision",
        "ResourceQuota cede-objects in namespace vision",
        "Secret cede-control in namespace vision",
        "RoleBinding cede-members in namespace vision",
    ]
    for desired in plan.objects:
        assert desired.body["metadata"]["labels"][names.ALLOCATION] == desired.owner
    assert not plan.problems


def test_a_namespace_names_the_accelerators_of_the_policy_for_the_admission_policy() -> None:
    types = [
        {"name": "p5", "partitions": {"nvidia.com/mig-1g.10gb": 7}},
        {"name": "trn2", "accelerator": "aws.amazon.com/neuron"},
    ]
    plan = make_plan(snapshot([allocation()], cluster_policy=policy(instanceTypes=types)))
    (namespace,) = [d.body["metadata"] for d in plan.objects if d.kind == NAMESPACES]
    named = namespace["annotations"][names.ACCELERATORS]
    assert named == "aws.amazon.com/neuron,nvidia.com/gpu,nvidia.com/mig-1g.10gb"


def test_a_namespace_names_controllers_and_classes_for_the_admission_policy() -> None:
    """With the classes up to the highest that the team may use."""
    security = {"controllerNamespaces": ["ci"]}
    teams = [allocation(), allocation("research", maxPriorityClass="sweep")]
    plan = make_plan(snapshot(teams, cluster_policy=policy(security=security)))
    named = {
        d.key[1]: d.body["metadata"]["annotations"] for d in plan.objects if d.kind == NAMESPACES
    }
    assert named["vision"][names.CONTROLLERS].split(",") == [*CONTROLLER_NAMESPACES, "ci"]
    assert named["vision"][names.PRIORITY_CLASSES] == "training,sweep"
    assert named["research"][names.PRIORITY_CLASSES] == "sweep"
    without = make_plan(snapshot([allocation()], cluster_policy=policy(priorityClasses=[])))
    (metadata,) = [d.body["metadata"] for d in without.objects if d.kind == NAMESPACES]
    assert names.PRIORITY_CLASSES not in metadata["annotations"]


@pytest.mark.parametrize("level", ["privileged", "baseline", "restricted"])
def test_a_namespace_that_cede_creates_enforces_pod_security(level: str) -> None:
    """A member's privileged Job owned its node."""
    security = {} if level == "baseline" else {"podSecurity": level}
    plan = make_plan(snapshot([allocation()], cluster_policy=policy(security=security)))
    (metadata,) = [d.body["metadata"] for d in plan.objects if d.kind == NAMESPACES]
    assert metadata["labels"][names.POD_SECURITY_ENFORCE] == level
    assert metadata["labels"][names.POD_SECURITY_WARN] == "restricted"


def test_each_namespace_has_a_key_of_its_own() -> None:
    plan = make_plan(snapshot([allocation("a"), allocation("b")]))
    keys = {d.key[0]: d.body["data"]["key"] for d in plan.objects if d.kind.kind == "Secret"}
    assert keys["a"] != keys["b"]
    assert derive_key(ROOT_KEY, "a") != derive_key(ROOT_KEY, "b")


def test_applied_objects_match_the_next_plan() -> None:
    teams = [allocation(), allocation("research")]
    live = as_live(make_plan(snapshot(teams, nodes=[node()])))
    again = make_plan(snapshot(teams, nodes=[node()], live=live))
    assert all(desired.matches(live[desired.object_id]) for desired in again.objects)
    assert not again.unwanted(live)


# --- without a policy -----------------------------------------------------------------------------
def test_without_a_policy_quotas_stay_and_kueue_preempts() -> None:
    before = as_live(make_plan(snapshot([allocation()])))
    spec_before = before[CLUSTER_QUEUES, ("", "vision")]["spec"]
    assert spec_before["preemption"]["reclaimWithinCohort"] == "Never"
    plan = make_plan(snapshot([allocation()], live=before, without_policy=True))
    [queue] = plan.objects
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    assert queue.body["spec"] == spec_before | {"preemption": preemption}
    assert (plan.unwanted(before), plan.abandoned_namespaces) == ([], ())
    assert plan.problems["vision"].reason == AllocationReason.NO_POLICY


def test_a_policy_of_a_newer_version_is_told_apart_from_none() -> None:
    """After a downgrade: the quotas stay, and the reason names the field."""
    reason = "ClusterPolicy default: spec.mode: Input should be 'Enforce' or 'Observe'"
    newer = replace(snapshot([allocation()], without_policy=True), unreadable=("Node n: x", reason))
    problem = make_plan(newer).problems["vision"]
    assert problem.reason == AllocationReason.NO_POLICY
    assert problem.message.startswith(f"this version of Cede cannot read {reason}: install the")


def test_without_policy_and_allocations_shared_objects_are_deleted() -> None:
    before = as_live(make_plan(snapshot([])))
    plan = make_plan(snapshot([], live=before, without_policy=True))
    assert COHORTS in {kind for kind, _, _ in plan.unwanted(before)}


# --- deletion -------------------------------------------------------------------------------------
STOPPED = {"type": "Active", "status": "False", "reason": "Stopped"}


@pytest.mark.parametrize("without_policy", [False, True])
def test_a_deleted_allocation_is_put_on_hold_first(without_policy: bool) -> None:
    before = as_live(make_plan(snapshot([allocation()])), vision={"reservingWorkloads": 1})
    deleted = allocation(deleting=True)
    plan = make_plan(snapshot([deleted], live=before, without_policy=without_policy))
    assert queue_spec(plan)["stopPolicy"] == "Hold"
    entries_before = quota_entries(before[CLUSTER_QUEUES, ("", "vision")]["spec"])
    assert quota_entries(queue_spec(plan)) == entries_before
    assert not plan.drained
    assert not plan.unwanted(before)


@pytest.mark.parametrize(
    ("status", "drained"),
    [
        pytest.param({}, False, id="Kueue has not confirmed the hold"),
        pytest.param({"conditions": [STOPPED], "reservingWorkloads": 1}, False, id="a job runs"),
        pytest.param({"conditions": [STOPPED], "reservingWorkloads": 0}, True, id="no job runs"),
    ],
)
@pytest.mark.parametrize("without_policy", [False, True])
def test_its_objects_are_deleted_when_no_job_uses_its_quota(
    status: Json, drained: bool, without_policy: bool
) -> None:
    deleted = allocation(deleting=True)
    live = as_live(make_plan(snapshot([allocation()])))
    before = as_live(make_plan(snapshot([deleted], live=live)), vision=status)
    plan = make_plan(snapshot([deleted], live=before, without_policy=without_policy))
    assert ("vision" in plan.drained) is drained
    removed = {kind.kind for kind, _, _ in plan.unwanted(before)}
    objects_of_team = {"ClusterQueue", "LocalQueue", "NetworkPolicy", "Service", "Secret"}
    objects_of_team.add("ResourceQuota")
    expected = objects_of_team if drained else set()
    assert removed - {"ResourceFlavor", "Cohort", "WorkloadPriorityClass"} == expected
    assert bool(plan.abandoned_namespaces) is drained, "the namespace stays, without our labels"
    assert not removed & {"ResourceFlavor", "Cohort"}
