"""What running jobs use is not taken away when an allocation is gone, moves or cannot be read."""

from dataclasses import replace
from typing import Any

import pytest

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, Json
from cede.api.reasons import AllocationReason
from quota_controller.desired.desired_object import ObjectId, owner_of
from quota_controller.desired.plan import Plan, Snapshot, make_plan
from quota_controller.status.allocation import allocation_statuses
from tests.builders.quotas import (
    P5_GPU,
    allocation,
    as_live,
    find_object,
    node,
    policy,
    queue_spec,
    snapshot,
)

MEMBERS = [{"kind": "Group", "name": "team"}]
ON_HOLD = [{"type": "Active", "status": "False", "reason": "Stopped"}]
RUNNING: Json = {"reservingWorkloads": 1}
IDLE: Json = {"reservingWorkloads": 0}
DRAINED: Json = {"conditions": ON_HOLD, "reservingWorkloads": 0}


def team(name: str = "vision", **spec: Any) -> ComputeAllocation:
    return allocation(name, members=MEMBERS, **spec)


def live_team(status: Json, **spec: Any) -> dict[ObjectId, Json]:
    """What team vision has, with this status of its queue; on hold if it is drained."""
    live = as_live(make_plan(snapshot([team(**spec)])), vision=status)
    if status is DRAINED:
        live[CLUSTER_QUEUES, ("", "vision")]["spec"]["stopPolicy"] = "Hold"
    return live


def removed(plan: Plan, live: dict[ObjectId, Json]) -> set[str]:
    """The kinds of what is deleted of team vision, and of its namespace if that is abandoned."""
    deleted = {
        kind.kind for kind, key, _ in plan.unwanted(live) if owner_of(live[kind, key]) == "vision"
    }
    return deleted | {"Namespace" for _ in plan.abandoned_namespaces}


ALL = {"ClusterQueue", "LocalQueue", "NetworkPolicy", "Service", "Secret", "ResourceQuota"}
ALL |= {"RoleBinding", "Namespace"}


# --- an allocation that cannot be read ------------------------------------------------------------
def unread(
    live: dict[ObjectId, Json], *others: ComputeAllocation, without_policy: bool = False
) -> Snapshot:
    """A new process, which has never read the allocation of team vision."""
    two_nodes = [node("n1"), node("n2")]
    cluster = snapshot(others, live=live, nodes=two_nodes, without_policy=without_policy)
    return replace(cluster, unreadable_allocations=frozenset({"vision"}))


@pytest.mark.parametrize("status", [RUNNING, DRAINED])
@pytest.mark.parametrize("without_policy", [False, True])
def test_nothing_of_an_allocation_that_cannot_be_read_is_taken_away(
    status: Json, without_policy: bool
) -> None:
    live = live_team(status)
    plan = make_plan(unread(live, without_policy=without_policy))
    assert removed(plan, live) == set()
    assert not [kind for kind, _, _ in plan.unwanted(live) if kind.kind != "ClusterRoleBinding"]
    before = live[CLUSTER_QUEUES, ("", "vision")]["spec"]
    kept = {name: queue_spec(plan)[name] for name in ("resourceGroups", "stopPolicy")}
    assert kept == {name: before[name] for name in kept}


def test_the_quota_of_an_allocation_that_cannot_be_read_is_granted_to_nobody() -> None:
    plan = make_plan(unread(live_team(RUNNING), team("research", quotas=[count(2)])))
    assert plan.grants.granted["research"][P5_GPU] == 8
    assert plan.grants.unallocated[P5_GPU] == 0


def count(nodes: int) -> Json:
    return {"instanceType": "p5", "count": nodes}


def test_an_unreadable_allocation_that_was_read_before_counts_as_it_last_was() -> None:
    live = live_team(RUNNING)
    plan = make_plan(unread(live, team()))
    assert (plan.kept, plan.problems) == (frozenset(), {})
    assert find_object(plan, "LocalQueue", "default")


@pytest.mark.parametrize("cede_preempts", [False, True])
def test_its_queue_has_the_preemption_that_all_have(cede_preempts: bool) -> None:
    """Two that preempt at once would stop jobs twice; none at all keeps owners waiting. Jobs of the
    team do not preempt each other, as its spec may not allow it."""
    cluster = replace(unread(live_team(RUNNING)), leader="s" if cede_preempts else "")
    preemption = queue_spec(make_plan(cluster))["preemption"]
    assert preemption["reclaimWithinCohort"] == ("Never" if cede_preempts else "Any")
    assert preemption["withinClusterQueue"] == "Never"


# --- no allocation --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(RUNNING, set(), id="a job runs"),
        pytest.param(IDLE, set(), id="Kueue has not confirmed the hold"),
        pytest.param(DRAINED, ALL, id="no job runs"),
    ],
)
@pytest.mark.parametrize("without_policy", [False, True])
def test_what_belongs_to_no_allocation_is_put_on_hold_and_goes_when_it_is_drained(
    status: Json, expected: set[str], without_policy: bool
) -> None:
    """Such as after a second installation, before the allocations are applied."""
    live = live_team(status)
    plan = make_plan(snapshot([], live=live, without_policy=without_policy))
    assert removed(plan, live) == expected
    if expected:
        return
    assert queue_spec(plan)["stopPolicy"] == "Hold"
    shared = {kind.kind for kind, _, _ in plan.unwanted(live)}
    assert not shared & {"ResourceFlavor", "Cohort", "WorkloadPriorityClass"}
    again = make_plan(snapshot([team()], live=live))
    assert queue_spec(again)["stopPolicy"] == "None", "its allocation is applied"


def test_the_quota_of_a_queue_that_drains_is_granted_to_nobody() -> None:
    others = [team("research", quotas=[count(2)])]
    cluster = snapshot(others, live=live_team(RUNNING), nodes=[node("n1"), node("n2")])
    assert make_plan(cluster).grants.granted["research"][P5_GPU] == 8


def test_a_renamed_team_that_is_applied_again_keeps_its_namespace() -> None:
    """The status, which named it, went with the uninstall."""
    plan = make_plan(snapshot([team(team="seeing")], live=live_team(RUNNING)))
    assert plan.namespaces == {"vision": "vision"}
    assert not plan.problems


# --- another namespace ----------------------------------------------------------------------------
def moving(status: Json, **spec: Any) -> tuple[Plan, dict[ObjectId, Json]]:
    live = live_team(status)
    spec = {"namespace": {"name": "lab"}, **spec}
    return make_plan(snapshot([team(**spec)], live=live)), live


@pytest.mark.parametrize(("status", "stop_policy"), [(RUNNING, "None"), (IDLE, "Hold")])
def test_a_team_stays_in_its_namespace_until_its_queue_is_drained(
    status: Json, stop_policy: str
) -> None:
    """It is on hold once no job runs, so that none starts in the namespace meanwhile."""
    plan, live = moving(status)
    assert removed(plan, live) == set()
    assert plan.problems["vision"].reason == AllocationReason.NAMESPACE_IN_USE
    assert plan.namespaces == {"vision": "vision"}
    assert [d.key[0] for d in plan.objects if d.kind == LOCAL_QUEUES] == ["vision"]
    assert queue_spec(plan)["stopPolicy"] == stop_policy
    assert queue_spec(plan)["namespaceSelector"] == selector("vision")


def test_a_team_stays_although_somebody_removes_the_label_or_changes_the_selector() -> None:
    moving_team = team(namespace={"name": "lab"})
    moving_team.status.namespace = "vision"
    unlabelled, changed = live_team(RUNNING), live_team(RUNNING)
    del unlabelled[NAMESPACES, ("", "vision")]
    changed[CLUSTER_QUEUES, ("", "vision")]["spec"]["namespaceSelector"] = {}
    for live in (unlabelled, changed):
        plan = make_plan(snapshot([moving_team], live=live))
        assert removed(plan, live) == set()
        assert plan.namespaces == {"vision": "vision"}
        assert queue_spec(plan)["namespaceSelector"] == selector("vision")


def test_a_team_in_conflict_during_an_upgrade_keeps_the_namespace_that_is_labelled_for_it() -> None:
    """The version before emptied the status, and its queue selected the namespace of the other."""
    live = live_team(RUNNING) | as_live(make_plan(snapshot([team("research")])))
    live[CLUSTER_QUEUES, ("", "vision")]["spec"]["namespaceSelector"] = selector("research")
    for name in ("research", "vision-2"):
        plan = make_plan(snapshot([team(team=name), team("research")], live=live))
        assert removed(plan, live) == set()
        assert plan.namespaces["vision"] == "vision"


def test_a_team_whose_queue_is_drained_moves() -> None:
    plan, live = moving(DRAINED)
    assert removed(plan, live) == ALL - {"ClusterQueue"}
    assert (plan.namespaces, plan.problems) == ({"vision": "lab"}, {})
    assert queue_spec(plan)["stopPolicy"] == "None"
    assert queue_spec(plan)["namespaceSelector"] == selector("lab")


def selector(namespace: str) -> Json:
    return {"matchLabels": {"kubernetes.io/metadata.name": namespace}}


def test_nobody_else_gets_a_namespace_in_which_jobs_run() -> None:
    adopting = team("b", namespace={"name": "vision", "adopt": True})
    for owners in ([], [team(namespace={"name": "lab"})], [team(team="b"), team("c", team="b")]):
        plan = make_plan(snapshot([*owners, adopting], live=live_team(RUNNING)))
        problem = plan.problems["b"]
        assert problem.reason in (AllocationReason.NAMESPACE_TAKEN, AllocationReason.TEAM_TAKEN)
    message = make_plan(snapshot([adopting], live=live_team(RUNNING))).problems["b"].message
    assert message.startswith("namespace vision belongs to allocation vision")


def test_a_namespace_that_became_reserved_gets_nothing_new_while_the_team_leaves_it() -> None:
    live = live_team(RUNNING)
    trusting = policy(security={"controllerNamespaces": ["vision"]})
    leaving = allocation(members=[{"kind": "User", "name": "new"}], namespace={"name": "lab"})
    plan = make_plan(snapshot([leaving], live=live, cluster_policy=trusting))
    assert plan.problems["vision"].reason == AllocationReason.NAMESPACE_IN_USE
    [binding] = [d.body for d in plan.objects if d.key[0] == "vision"]
    assert binding["subjects"] == [], "those who are no members any more lose their rights"
    assert removed(plan, live) == set()


def test_a_team_keeps_its_namespace_through_a_conflict() -> None:
    """A name that is taken, and then another one, moved it from under its jobs."""
    live = live_team(RUNNING)
    live |= as_live(make_plan(snapshot([team("research")])))
    renamed = team(team="research")
    for name in ("research", "vision-2"):
        renamed.spec.team = name
        cluster = snapshot([renamed, team("research")], live=live)
        plan = make_plan(cluster)
        renamed.status = allocation_statuses(plan, cluster, {}, 1.0)["vision"]
        assert renamed.status.namespace == "vision"
        assert removed(plan, live) == set()
    assert not plan.problems


def test_a_namespace_that_another_allocation_has_got_is_not_the_last_one_any_more() -> None:
    live = live_team(RUNNING)
    live[NAMESPACES, ("", "vision")]["metadata"]["labels"][names.ALLOCATION] = "b"
    stale = team(team="b")
    stale.status.namespace = "vision"
    plan = make_plan(snapshot([stale, team("b", namespace={"name": "vision"})], live=live))
    assert plan.namespaces == {"vision": "", "b": "vision"}


# --- many teams -----------------------------------------------------------------------------------
class CountingObjects(dict[ObjectId, Json]):
    """Live objects that count how often somebody goes through all of them."""

    rounds = 0

    def items(self) -> Any:
        self.rounds += 1
        return super().items()


def test_a_plan_goes_through_the_live_objects_as_often_for_many_teams_as_for_two() -> None:
    rounds = []
    for number in (2, 20):
        teams = [team(f"t{index}") for index in range(number)]
        live = CountingObjects(as_live(make_plan(snapshot(teams))))
        make_plan(snapshot(teams, live=live))
        rounds.append(live.rounds)
    assert rounds[0] == rounds[1]
