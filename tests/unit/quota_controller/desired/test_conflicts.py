"""Whose namespace it is, whose team, and what an allocation names that the policy does not know:
told with the cure."""

from typing import Any

import pytest

from cede.api import names
from cede.api.objects import LOCAL_QUEUES, NAMESPACES, Json
from quota_controller.desired.plan import plan
from tests.unit.quota_controller.desired.test_plan import allocation, as_live, only, seen


# --- namespaces -----------------------------------------------------------------------------------
def namespace(name: str = "vision", **labels: str) -> dict[Any, Json]:
    return {(NAMESPACES, ("", name)): {"metadata": {"name": name, "uid": "u", "labels": labels}}}


def test_a_strangers_namespace_is_left_alone_and_the_cure_is_said() -> None:
    decided = plan(seen([allocation()], live=namespace()))
    assert decided.problems["vision"][0] == "NamespaceExists"
    assert "adopt: true" in decided.problems["vision"][1]
    assert not [t for t in decided.targets if t.key[0] == "vision" or t.kind == NAMESPACES]


def test_an_adopted_namespace_gets_our_labels_and_keeps_its_manager() -> None:
    live = namespace(**{names.MANAGED_BY: "helm"})
    decided = plan(seen([allocation(namespace={"name": "vision", "adopt": True})], live=live))
    assert only(decided, "Namespace", "vision").body["metadata"]["labels"] == {
        names.TEAM: "vision",
        names.ALLOCATION: "vision",
    }
    assert not decided.problems


@pytest.mark.parametrize(
    ("labels", "first"),
    [
        pytest.param({}, "a", id="the first by age, then name"),
        pytest.param({names.ALLOCATION: "b"}, "b", id="the one that has it"),
    ],
)
def test_two_allocations_for_one_namespace(labels: dict[str, str], first: str) -> None:
    both = [allocation(name, namespace={"name": "lab", "adopt": True}) for name in "ab"]
    decided = plan(seen(both, live=namespace("lab", **labels)))
    [(loser, (reason, why))] = decided.problems.items()
    assert (loser != first, reason) == (True, "NamespaceTaken")
    assert f"belongs to allocation {first}" in why
    assert {t.owner for t in decided.targets if t.kind == LOCAL_QUEUES} == {first}


@pytest.mark.parametrize(
    ("labels", "first"),
    [
        pytest.param({}, "a", id="the first by age, then name"),
        pytest.param(
            {names.TEAM: "lab", names.ALLOCATION: "b"}, "b", id="the one that has the team already"
        ),
        pytest.param(
            {names.TEAM: "other", names.ALLOCATION: "b"}, "a", id="a team it had before is no claim"
        ),
    ],
)
def test_two_allocations_for_one_team(labels: dict[str, str], first: str) -> None:
    both = [allocation(name, team="lab", namespace={"name": f"lab-{name}"}) for name in "ab"]
    decided = plan(seen(both, live=namespace("lab-b", **labels) if labels else {}))
    [(loser, (reason, why))] = decided.problems.items()
    assert (loser != first, reason) == (True, "TeamTaken")
    assert (
        f"team lab has allocation {first} already: put its quotas there and delete this one, or "
        f"name another team"
    ) == why
    assert {t.owner for t in decided.targets if t.kind == LOCAL_QUEUES} == {first}


def test_a_namespace_that_is_named_no_more_gives_up_our_labels_and_lives() -> None:
    before = as_live(plan(seen([allocation()])))
    decided = plan(seen([allocation(namespace={"name": "other"})], live=before))
    assert decided.abandoned == ((("", "vision"), "u"),)
    gone = {kind.kind for kind, _, _ in decided.unwanted(before)}
    assert gone == {"LocalQueue", "Service", "Secret"}


# --- what the policy does not know ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("spec", "reason", "cure"),
    [
        pytest.param(
            {"quotas": [{"instanceType": "x", "count": 1}]},
            "UnknownInstanceType",
            "use one of p5",
            id="type",
        ),
        pytest.param(
            {"quotas": [{"instanceType": "p5", "partitions": {"nvidia.com/mig-1g.10gb": 1}}]},
            "UnknownPartition",
            "name it in the type's",
            id="partition",
        ),
        pytest.param(
            {"maxPriorityClass": "vip"},
            "UnknownPriorityClass",
            "use one of training, sweep",
            id="class",
        ),
    ],
)
def test_unknown_names_are_said_with_those_that_are_known(
    spec: Json, reason: str, cure: str
) -> None:
    found_reason, why = plan(seen([allocation(**spec)])).problems["vision"]
    assert found_reason == reason
    assert cure in why


def test_a_team_that_is_renamed_keeps_its_namespace() -> None:
    renamed = allocation(team="seeing")
    assert plan(seen([renamed])).targets[-1].key[0] == "seeing", "a new one is named as the team"
    renamed.status.namespace = "vision"
    decided = plan(seen([renamed], live=as_live(plan(seen([allocation()])))))
    assert only(decided, "Namespace", "vision").body["metadata"]["labels"][names.TEAM] == "seeing"
    assert not decided.abandoned
