"""Conflicts about teams and namespaces, and names that the policy does not have, with the cure."""

import pytest

from cede.api import names
from cede.api.objects import LOCAL_QUEUES, NAMESPACES, RESOURCE_QUOTAS, Json
from cede.api.reasons import AllocationReason
from quota_controller.desired.plan import Plan, make_plan
from tests.builders.quotas import (
    allocation,
    as_live,
    find_object,
    live_namespace,
    policy,
    snapshot,
)


# --- namespaces -----------------------------------------------------------------------------------
def test_a_namespace_of_somebody_else_is_left_unchanged() -> None:
    plan = make_plan(snapshot([allocation()], live=live_namespace()))
    problem = plan.problems["vision"]
    assert problem.reason == AllocationReason.NAMESPACE_EXISTS
    assert "set namespace.adopt to true" in problem.message
    assert not [d for d in plan.objects if d.key[0] == "vision" or d.kind == NAMESPACES]


@pytest.mark.parametrize(
    ("labels", "annotations", "is_taken"),
    [
        pytest.param({names.MANAGED_BY: "cede"}, {}, False, id="labelled by its owner"),
        pytest.param({}, {names.CREATED_FOR: "vision"}, True, id="left of an allocation"),
        pytest.param({}, {names.CREATED_FOR: "other"}, False, id="left of another one"),
        pytest.param({names.ALLOCATION: "other"}, {}, False, id="not yet abandoned by another one"),
    ],
)
def test_a_namespace_of_somebody_else_is_taken_with_adopt_only(
    labels: dict[str, str], annotations: dict[str, str], is_taken: bool
) -> None:
    """Many tools write the label of a manager, and owners of namespaces may."""
    live = live_namespace(**labels)
    live[NAMESPACES, ("", "vision")]["metadata"]["annotations"] = annotations
    problems = make_plan(snapshot([allocation()], live=live)).problems
    reasons = {problem.reason for problem in problems.values()}
    assert reasons == (set() if is_taken else {AllocationReason.NAMESPACE_EXISTS})
    adopting = allocation(namespace={"name": "vision", "adopt": True})
    assert not make_plan(snapshot([adopting], live=live)).problems


def test_a_namespace_that_is_not_adopted_any_more_stays_somebody_elses() -> None:
    """The policy cede-namespaces refuses its pod security and its manager otherwise."""
    live = live_namespace(**{names.TEAM: "vision", names.ALLOCATION: "vision"})
    plan = make_plan(snapshot([allocation()], live=live))
    metadata = find_object(plan, "Namespace", "vision").body["metadata"]
    assert metadata["labels"] == {names.TEAM: "vision", names.ALLOCATION: "vision"}
    assert names.CREATED_FOR not in metadata["annotations"]
    assert not [desired for desired in plan.objects if desired.kind == RESOURCE_QUOTAS]


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [({names.MANAGED_BY: "cede"}, {}), ({}, {names.CREATED_FOR: "vision"})],
    ids=["the label is left", "the annotation is left"],
)
def test_what_says_that_cede_created_a_namespace_is_written_again(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    live = live_namespace(**labels, **{names.ALLOCATION: "vision"})
    live[NAMESPACES, ("", "vision")]["metadata"]["annotations"] = annotations
    expect_marks(make_plan(snapshot([allocation()], live=live)))


def expect_marks(plan: Plan) -> None:
    """Of a namespace that Cede created, with what it keeps there for that."""
    metadata = find_object(plan, "Namespace", "vision").body["metadata"]
    assert metadata["labels"][names.MANAGED_BY] == "cede"
    assert metadata["labels"][names.POD_SECURITY_ENFORCE] == "baseline"
    assert metadata["annotations"][names.CREATED_FOR] == "vision"
    assert find_object(plan, "ResourceQuota", "cede-objects")


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        pytest.param({names.MANAGED_BY: "cede"}, {}, id="left before there was the annotation"),
        pytest.param({}, {names.CREATED_FOR: "other"}, id="of an allocation of another name"),
    ],
)
def test_adopt_keeps_the_pod_security_of_a_namespace_that_cede_created(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    """To allow its adoption is the cure of NamespaceExists."""
    live = live_namespace(**labels)
    live[NAMESPACES, ("", "vision")]["metadata"]["annotations"] = annotations
    assert make_plan(snapshot([allocation()], live=live)).problems
    adopting = allocation(namespace={"name": "vision", "adopt": True})
    expect_marks(make_plan(snapshot([adopting], live=live)))


def test_an_adopted_namespace_gets_our_labels_and_keeps_its_manager() -> None:
    live = live_namespace(**{names.MANAGED_BY: "helm"})
    adopting = allocation(namespace={"name": "vision", "adopt": True})
    plan = make_plan(snapshot([adopting], live=live))
    assert find_object(plan, "Namespace", "vision").body["metadata"]["labels"] == {
        names.TEAM: "vision",
        names.ALLOCATION: "vision",
    }
    assert not plan.problems


def test_a_namespace_that_is_being_deleted_is_reported() -> None:
    live = live_namespace(**{names.TEAM: "vision", names.ALLOCATION: "vision"})
    live[NAMESPACES, ("", "vision")]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    problem = make_plan(snapshot([allocation()], live=live)).problems["vision"]
    assert problem.reason == AllocationReason.NAMESPACE_TERMINATING


@pytest.mark.parametrize("labels", [{}, {names.TEAM: "vision", names.ALLOCATION: "vision"}])
@pytest.mark.parametrize(
    ("namespace", "controllers", "cure"),
    [
        pytest.param("kubeflow", [], "set namespace.name to another one", id="of the cluster"),
        pytest.param("kube-flannel", [], "set namespace.name to another one", id="by its prefix"),
        pytest.param("ci", ["ci"], "or remove it there if no controller", id="of the policy"),
    ],
)
def test_a_namespace_whose_accounts_count_as_controllers_is_no_teams(
    labels: dict[str, str], namespace: str, controllers: list[str], cure: str
) -> None:
    """Nor does one that was a team's before get anything new."""
    security = {"controllerNamespaces": controllers}
    adopting = allocation(namespace={"name": namespace, "adopt": True})
    live = live_namespace(namespace, **labels)
    plan = make_plan(snapshot([adopting], cluster_policy=policy(security=security), live=live))
    problem = plan.problems["vision"]
    assert problem.reason == AllocationReason.NAMESPACE_RESERVED
    assert (problem.message.startswith(f"namespace {namespace} "), cure in problem.message) == (
        True,
        True,
    )
    assert not [d for d in plan.objects if d.key[0] == namespace or d.kind == NAMESPACES]
    assert plan.kept == {"vision"}
    assert not plan.abandoned_namespaces


def test_a_namespace_of_no_controller_may_be_a_teams() -> None:
    """Nobody trusts its accounts, so the policy may leave out what it names by default."""
    security = {"controllerNamespaces": ["kube-system"]}
    adopting = allocation(namespace={"name": "ci", "adopt": True})
    live = live_namespace("ci")
    plan = make_plan(snapshot([adopting], cluster_policy=policy(security=security), live=live))
    assert not plan.problems


def test_an_allocation_without_a_namespace_of_its_own_takes_no_team_from_another() -> None:
    first = allocation("a", team="lab", namespace={"name": "kubeflow", "adopt": True})
    second = allocation("b", team="lab", namespace={"name": "lab"})
    assert make_plan(snapshot([first, second])).problems.keys() == {"a"}


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        pytest.param({}, "a", id="the oldest, then the first by name"),
        pytest.param({names.ALLOCATION: "b"}, "b", id="the one that has it"),
    ],
)
def test_one_of_two_allocations_gets_the_namespace(labels: dict[str, str], owner: str) -> None:
    both = [allocation(name, namespace={"name": "lab", "adopt": True}) for name in "ab"]
    plan = make_plan(snapshot(both, live=live_namespace("lab", **labels)))
    [(loser, problem)] = plan.problems.items()
    assert (loser != owner, problem.reason) == (True, AllocationReason.NAMESPACE_TAKEN)
    assert f"belongs to allocation {owner}" in problem.message
    assert {d.owner for d in plan.objects if d.kind == LOCAL_QUEUES} == {owner}


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        pytest.param({}, "a", id="the oldest, then the first by name"),
        pytest.param(
            {names.TEAM: "lab", names.ALLOCATION: "b"}, "b", id="the one that has the team"
        ),
        pytest.param(
            {names.TEAM: "other", names.ALLOCATION: "b"}, "a", id="a former team does not count"
        ),
    ],
)
def test_one_of_two_allocations_gets_the_team(labels: dict[str, str], owner: str) -> None:
    both = [allocation(name, team="lab", namespace={"name": f"lab-{name}"}) for name in "ab"]
    live = live_namespace("lab-b", **labels) if labels else {}
    plan = make_plan(snapshot(both, live=live))
    [(loser, problem)] = plan.problems.items()
    assert (loser != owner, problem.reason) == (True, AllocationReason.TEAM_TAKEN)
    assert problem.message == (
        f"team lab already has allocation {owner}: add the quotas there and delete this one, or "
        "name another team"
    )
    assert {d.owner for d in plan.objects if d.kind == LOCAL_QUEUES} == {owner}


def test_a_namespace_that_is_no_longer_named_loses_our_labels_only() -> None:
    """Once no job runs there."""
    status = {"conditions": [{"type": "Active", "status": "False"}]}
    before = as_live(make_plan(snapshot([allocation(active=False)])), vision=status)
    moved = allocation(namespace={"name": "other"}, active=False)
    plan = make_plan(snapshot([moved], live=before))
    assert plan.abandoned_namespaces == ((("", "vision"), "u"),)
    deleted = {kind.kind for kind, _, _ in plan.unwanted(before)}
    assert deleted == {"LocalQueue", "NetworkPolicy", "ResourceQuota", "Service", "Secret"}


def test_a_renamed_team_keeps_its_namespace() -> None:
    renamed = allocation(team="seeing")
    first_plan = make_plan(snapshot([renamed]))
    assert first_plan.objects[-1].key[0] == "seeing", "a new one has the name of the team"
    renamed.status.namespace = "vision"
    plan = make_plan(snapshot([renamed], live=as_live(make_plan(snapshot([allocation()])))))
    labels = find_object(plan, "Namespace", "vision").body["metadata"]["labels"]
    assert labels[names.TEAM] == "seeing"
    assert not plan.abandoned_namespaces


# --- names that the policy does not have ----------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "reason", "cure"),
    [
        pytest.param(
            {"quotas": [{"instanceType": "x", "count": 1}]},
            AllocationReason.UNKNOWN_INSTANCE_TYPE,
            "use one of p5",
            id="type",
        ),
        pytest.param(
            {"quotas": [{"instanceType": "p5", "partitions": {"nvidia.com/mig-1g.10gb": 1}}]},
            AllocationReason.UNKNOWN_PARTITION,
            "add it to the type's partitions",
            id="partition",
        ),
        pytest.param(
            {"maxPriorityClass": "vip"},
            AllocationReason.UNKNOWN_PRIORITY_CLASS,
            "use one of training, sweep",
            id="class",
        ),
    ],
)
def test_unknown_names_are_reported_with_the_known_ones(
    spec: Json, reason: AllocationReason, cure: str
) -> None:
    problem = make_plan(snapshot([allocation(**spec)])).problems["vision"]
    assert problem.reason == reason
    assert cure in problem.message
