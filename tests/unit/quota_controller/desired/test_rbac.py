"""What members may do and see, and that nobody may do more."""

from collections.abc import Iterator

import pytest
import yaml

from cede.api import names
from cede.api.objects import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Json, Kind
from quota_controller.desired import rbac
from quota_controller.desired.plan import Plan, make_plan
from tests.builders.quotas import allocation, as_live, live_namespace, snapshot
from tests.paths import TREE

BASE = TREE / "deploy" / "base"
ROLES = {
    document["metadata"]["name"]: document["rules"]
    for document in yaml.safe_load_all((BASE / "quota-controller" / "rbac.yaml").read_text())
    if document["kind"] == "ClusterRole"
}
READ = {"get", "list", "watch"}
WORK = {"get", "list", "watch", "create", "update", "patch", "delete"}
MEMBERS = [
    {"kind": "User", "name": "ann"},
    {"kind": "ServiceAccount", "name": "ci"},
    {"kind": "Group", "name": "all"},
]


def bindings(plan: Plan, kind: Kind) -> dict[tuple[str, str], tuple[str, list[str]]]:
    """Key of the binding → (role, subjects)."""
    bound = {}
    for desired in plan.objects:
        if desired.kind == kind:
            subjects = [
                f"{subject['kind']} {subject.get('namespace', '')}/{subject['name']}"
                for subject in desired.body["subjects"]
            ]
            bound[desired.key] = (desired.body["roleRef"]["name"], subjects)
    return bound


def test_members_work_in_their_namespace_and_see_the_queues() -> None:
    others = [
        {"kind": "Group", "name": "all"},
        {"kind": "ServiceAccount", "name": "ci", "namespace": "tools"},
    ]
    teams = [allocation(members=MEMBERS), allocation("research", members=others)]
    plan = make_plan(snapshot([*teams, allocation("third")]))
    assert bindings(plan, ROLE_BINDINGS) == {
        ("vision", "cede-members"): (
            "cede-member",
            ["User /ann", "ServiceAccount vision/ci", "Group /all"],
        ),
        ("research", "cede-members"): ("cede-member", ["Group /all", "ServiceAccount tools/ci"]),
    }
    assert bindings(plan, CLUSTER_ROLE_BINDINGS) == {
        ("", "cede-members"): (
            "cede-viewer",
            ["Group /all", "User /ann", "ServiceAccount tools/ci", "ServiceAccount vision/ci"],
        ),
    }


def test_members_of_a_team_without_a_namespace_get_no_rights() -> None:
    plan = make_plan(snapshot([allocation(members=MEMBERS)], live=live_namespace()))
    assert not bindings(plan, ROLE_BINDINGS)
    assert not bindings(plan, CLUSTER_ROLE_BINDINGS)


def test_bindings_of_removed_members_are_deleted() -> None:
    before = as_live(make_plan(snapshot([allocation(members=MEMBERS)])))
    plan = make_plan(snapshot([allocation()], live=before))
    assert {(kind, key) for kind, key, _ in plan.unwanted(before)} == {
        (ROLE_BINDINGS, ("vision", "cede-members")),
        (CLUSTER_ROLE_BINDINGS, ("", "cede-members")),
    }


KUBEFLOW = {"name": "kubeflow", "adopt": True}
EVE = {"kind": "User", "name": "eve"}


@pytest.mark.parametrize(
    ("members", "staying"),
    [
        pytest.param(MEMBERS[:1], ["User /ann"], id="two are removed"),
        pytest.param([], [], id="all are"),
        pytest.param([EVE, *MEMBERS[1:]], ["ServiceAccount kubeflow/ci", "Group /all"], id="new"),
    ],
)
def test_in_a_namespace_that_became_reserved_members_are_only_removed(
    members: list[Json], staying: list[str]
) -> None:
    plan = plan_in_kubeflow(members, bound=MEMBERS)
    assert bindings(plan, ROLE_BINDINGS) == {("kubeflow", "cede-members"): ("cede-member", staying)}
    [binding] = [desired for desired in plan.objects if desired.kind == ROLE_BINDINGS]
    assert binding.body["metadata"]["uid"] == "u", "so that it is never created"


@pytest.mark.parametrize("bound", [MEMBERS, None], ids=["as they were", "never bound"])
def test_in_a_namespace_that_became_reserved_nobody_gets_rights(bound: list[Json] | None) -> None:
    plan = plan_in_kubeflow([EVE, *MEMBERS], bound)
    assert not bindings(plan, ROLE_BINDINGS)


def plan_in_kubeflow(members: list[Json], bound: list[Json] | None) -> Plan:
    """`bound` are the members that the RoleBinding has."""
    before = allocation(members=bound or [], namespace=KUBEFLOW)
    live = {desired.object_id: desired.body for desired in rbac.member_bindings(before)}
    for body in live.values():
        body["metadata"]["uid"] = "u"
    plan = make_plan(snapshot([allocation(members=members, namespace=KUBEFLOW)], live=live))
    assert not plan.unwanted(live)
    return plan


# --- the roles that are installed -----------------------------------------------------------------
def rights(role: str) -> dict[tuple[str, str], set[str]]:
    """(API group, resource) → verbs."""
    verbs: dict[tuple[str, str], set[str]] = {}
    for rule in ROLES[role]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                verbs.setdefault((group, resource), set()).update(rule["verbs"])
    return verbs


def webhook_kinds() -> Iterator[tuple[str, str]]:
    """(API group, resource) of the kinds for which the webhook sets queue and priority."""
    for config in yaml.safe_load_all((BASE / "webhook" / "configurations.yaml").read_text()):
        for hook in config.get("webhooks", []):
            for rule in hook["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        yield group, resource


@pytest.mark.parametrize("kind", sorted(set(webhook_kinds()) - {("", "pods")}), ids="/".join)
def test_members_may_work_with_every_kind_of_the_webhook(kind: tuple[str, str]) -> None:
    assert rights("cede-member")[kind] == WORK


@pytest.mark.parametrize("role", ["cede-member", "cede-viewer"])
def test_members_change_no_object_of_cede_or_kueue_and_read_no_secret(role: str) -> None:
    read_only_groups = (
        "kueue.x-k8s.io",
        names.GROUP,
        "rbac.authorization.k8s.io",
        "visibility.kueue.x-k8s.io",
    )
    for (group, resource), verbs in rights(role).items():
        assert resource not in ("secrets", "*")
        assert "*" not in verbs | {group}
        if group in read_only_groups:
            assert verbs <= READ, resource


def test_members_delete_pods_and_create_none() -> None:
    assert rights("cede-member")["", "pods"] == READ | {"delete"}, "jobs create pods"


def test_members_see_how_many_objects_they_may_have_and_raise_no_limit() -> None:
    assert rights("cede-member")["", "resourcequotas"] == READ


def test_viewers_only_read() -> None:
    assert all(verbs == READ for verbs in rights("cede-viewer").values())


def test_the_quota_controller_may_bind_these_two_roles_only() -> None:
    own_rules = ROLES["cede-quota-controller"]
    rbac_rules = [rule for rule in own_rules if "rbac.authorization.k8s.io" in rule["apiGroups"]]
    bindable = [rule["resourceNames"] for rule in rbac_rules if "bind" in rule["verbs"]]
    assert bindable == [["cede-member", "cede-viewer"]]
    for rule in rbac_rules:
        if set(rule["verbs"]) - {"list", "watch"}:
            assert rule.get("resourceNames")
    verbs = {verb for rule in own_rules for verb in rule["verbs"]}
    assert not {"escalate", "*", "impersonate"} & verbs
