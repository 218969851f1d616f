"""How many objects a team may have in its namespace."""

from typing import Any

import pytest
import yaml

from cede.api.objects import RESOURCE_QUOTAS, Json, Kind
from quota_controller.desired.object_counts import COUNTED_KINDS, same_limits
from quota_controller.desired.plan import Plan, make_plan
from scheduler.snapshot.kinds import KINDS
from tests.builders.quotas import allocation, as_live, policy, snapshot
from tests.paths import TREE

ADOPTED = {"name": "vision", "adopt": True}
CREATED_BY_JOBS = {"pods"}
OF_OTHER_OPERATORS = {"leaderworkersets"}
MEMBER_ROLE = "deploy/base/quota-controller/rbac.yaml"


def plan_with(most: int | None = None, live: Any = None, **spec: Any) -> Plan:
    security = {} if most is None else {"maxObjectsPerKind": most}
    cluster_policy = policy(security=security)
    return make_plan(snapshot([allocation(**spec)], cluster_policy=cluster_policy, live=live or {}))


def limits(plan: Plan) -> list[Json]:
    return [d.body["spec"]["hard"] for d in plan.objects if d.kind == RESOURCE_QUOTAS]


@pytest.mark.parametrize(
    ("most", "limit"),
    [pytest.param(None, "10000", id="by default"), pytest.param(500, "500", id="the policy's")],
)
def test_a_namespace_that_cede_creates_limits_what_fills_the_memory_of_the_scheduler(
    most: int | None, limit: str
) -> None:
    """A member who created suspended Jobs without end stopped the scheduler of all teams."""
    counts = ("count/jobs.batch", "count/pods", "count/deployments.apps")
    assert limits(plan_with(most)) == [dict.fromkeys(counts, limit)]


def test_an_adopted_namespace_gets_no_limit() -> None:
    """It belongs to others, whose pods a limit could refuse."""
    assert not limits(plan_with(namespace=ADOPTED))


def test_a_limit_that_should_not_be_any_more_is_removed_and_nothing_else() -> None:
    live = as_live(plan_with())
    plan = plan_with(0, live)
    assert not limits(plan)
    assert plan.unwanted(live) == [(RESOURCE_QUOTAS, ("vision", "cede-objects"), "u")]


def test_a_namespace_that_cede_created_keeps_its_limit_with_adopt() -> None:
    live = as_live(plan_with())
    assert limits(plan_with(None, live, namespace=ADOPTED)) == limits(plan_with())


def created_by_members() -> set[tuple[str, str]]:
    """(API group, resource)."""
    [role] = [
        document
        for document in yaml.safe_load_all((TREE / MEMBER_ROLE).read_text())
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == "cede-member"
    ]
    return {
        (group, resource)
        for rule in role["rules"]
        if "create" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_each_kind_that_the_scheduler_keeps_and_members_create_has_a_limit() -> None:
    """But for kinds that a cluster need not have."""
    members = created_by_members()

    def is_without_end(kind: Kind) -> bool:
        return (kind.group, kind.plural) in members or kind.plural in CREATED_BY_JOBS

    without_end = {kind for kind, _ in KINDS.values() if is_without_end(kind)}
    optional = {kind for kind in without_end if kind.plural in OF_OTHER_OPERATORS}
    assert without_end - optional == set(COUNTED_KINDS)


@pytest.mark.parametrize(
    ("field", "same"),
    [
        pytest.param({"status": {"used": {"count/pods": "7"}}}, True, id="what was counted"),
        pytest.param({"spec": {"hard": {"count/pods": "7"}}}, False, id="a limit"),
        pytest.param({"metadata": {"labels": {}}}, False, id="our labels"),
    ],
)
def test_what_kubernetes_counts_changes_no_limit(field: Json, same: bool) -> None:
    [live] = [o for (kind, _), o in as_live(plan_with()).items() if kind == RESOURCE_QUOTAS]
    assert same_limits(live, live | field) is same
