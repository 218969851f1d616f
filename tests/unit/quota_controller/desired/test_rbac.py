"""What members may do and see, and that nobody may do more."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Json, Kind
from quota_controller.desired.plan import Plan, plan
from tests.paths import TREE
from tests.unit.quota_controller.desired.test_conflicts import namespace
from tests.unit.quota_controller.desired.test_plan import allocation, as_live, seen

BASE = TREE / "deploy" / "base"
ROLES = {
    one["metadata"]["name"]: one["rules"]
    for one in yaml.safe_load_all((BASE / "quota-controller" / "rbac.yaml").read_text())
    if one["kind"] == "ClusterRole"
}
READ = {"get", "list", "watch"}
WORK = {"get", "list", "watch", "create", "update", "patch", "delete"}


def bound(decided: Plan, kind: Kind) -> dict[tuple[str, str], tuple[str, list[str]]]:
    return {
        t.key: (
            t.body["roleRef"]["name"],
            [f"{s['kind']} {s.get('namespace', '')}/{s['name']}" for s in t.body["subjects"]],
        )
        for t in decided.targets
        if t.kind == kind
    }


MEMBERS = [
    {"kind": "User", "name": "ann"},
    {"kind": "ServiceAccount", "name": "ci"},
    {"kind": "Group", "name": "all"},
]


def test_members_work_in_their_namespace_and_see_the_queues() -> None:
    others = [
        {"kind": "Group", "name": "all"},
        {"kind": "ServiceAccount", "name": "ci", "namespace": "tools"},
    ]
    decided = plan(
        seen(
            [
                allocation(members=MEMBERS),
                allocation("research", members=others),
                allocation("third"),
            ]
        )
    )
    assert bound(decided, ROLE_BINDINGS) == {
        ("vision", "cede-members"): (
            "cede-member",
            ["User /ann", "ServiceAccount vision/ci", "Group /all"],
        ),
        ("research", "cede-members"): ("cede-member", ["Group /all", "ServiceAccount tools/ci"]),
    }
    assert bound(decided, CLUSTER_ROLE_BINDINGS) == {
        ("", "cede-members"): (
            "cede-viewer",
            ["Group /all", "User /ann", "ServiceAccount tools/ci", "ServiceAccount vision/ci"],
        ),
    }


def test_members_of_a_team_that_has_no_namespace_get_nothing() -> None:
    stranger: dict[Any, Json] = namespace()
    decided = plan(seen([allocation(members=MEMBERS)], live=stranger))
    assert not bound(decided, ROLE_BINDINGS) | bound(decided, CLUSTER_ROLE_BINDINGS)


def test_members_removed_are_unbound() -> None:
    before = as_live(plan(seen([allocation(members=MEMBERS)])))
    gone = {
        (kind, key) for kind, key, _ in plan(seen([allocation()], live=before)).unwanted(before)
    }
    assert gone == {
        (ROLE_BINDINGS, ("vision", "cede-members")),
        (CLUSTER_ROLE_BINDINGS, ("", "cede-members")),
    }


# --- the roles that are shipped -------------------------------------------------------------------
def may(role: str) -> dict[tuple[str, str], set[str]]:
    out: dict[tuple[str, str], set[str]] = {}
    for rule in ROLES[role]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                out.setdefault((group, resource), set()).update(rule["verbs"])
    return out


def served() -> Iterator[tuple[str, str]]:
    """What the webhook gives queue and priority."""
    for config in yaml.safe_load_all((BASE / "webhook" / "configurations.yaml").read_text()):
        for hook in config.get("webhooks", []):
            for rule in hook["rules"]:
                yield from (
                    (group, resource)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                )


@pytest.mark.parametrize("kind", sorted(set(served()) - {("", "pods")}), ids="/".join)
def test_members_submit_see_and_cancel_every_kind_the_webhook_serves(kind: tuple[str, str]) -> None:
    assert may("cede-member")[kind] == WORK


def test_members_change_nothing_of_ours_or_kueues_and_read_no_secret() -> None:
    for role in ("cede-member", "cede-viewer"):
        for (group, resource), verbs in may(role).items():
            assert resource not in ("secrets", "*"), role
            assert "*" not in verbs | {group}
            if group in (
                "kueue.x-k8s.io",
                names.GROUP,
                "rbac.authorization.k8s.io",
                "visibility.kueue.x-k8s.io",
            ):
                assert verbs <= READ, (role, resource)
    assert may("cede-member")["", "pods"] == READ | {"delete"}, "pods are made by jobs"
    assert all(verbs == READ for verbs in may("cede-viewer").values())


def test_we_bind_these_two_roles_and_no_other_and_hold_nothing_of_them() -> None:
    ours = [
        rule
        for rule in ROLES["cede-quota-controller"]
        if "rbac.authorization.k8s.io" in rule["apiGroups"]
    ]
    assert [rule["resourceNames"] for rule in ours if "bind" in rule["verbs"]] == [
        ["cede-member", "cede-viewer"]
    ]
    assert all(rule.get("resourceNames") for rule in ours if set(rule["verbs"]) - {"list", "watch"})
    assert not {"escalate", "*", "impersonate"} & {
        verb for rule in ROLES["cede-quota-controller"] for verb in rule["verbs"]
    }
