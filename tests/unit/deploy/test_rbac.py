"""What the components may do at all, so that more of it is a decision and no accident."""

from collections import defaultdict
from itertools import product

import pytest
import yaml

from cede.api.objects import Json
from tests.paths import TREE

ACCOUNTS = ("cede-quota-controller", "cede-scheduler", "cede-webhook")
ALL_NAMES = "any"
SECRETS = {
    "cede-quota-controller": {
        "cluster: cede-control create delete get list patch watch",
        "cede-system: any create",
        "cede-system: cede-root get patch",
        "cede-system: cede-webhook-cert list update watch",
    },
    "cede-scheduler": {"cede-system: cede-root get"},
    "cede-webhook": {"cede-system: cede-webhook-cert list watch"},
}
"""`create` of any name is limited by the policy cede-secrets."""


def documents() -> list[Json]:
    files = [*(TREE / "deploy/base").rglob("*.yaml"), *(TREE / "deploy/guard").rglob("*.yaml")]
    return [
        document
        for file in files
        for document in yaml.safe_load_all(file.read_text())
        if document and "rbac" in document.get("apiVersion", "")
    ]


def rules_of(account: str) -> list[tuple[str, Json]]:
    """(where, rule) of each role that is bound to the account."""
    found_rules = []
    for binding in documents():
        subjects = [subject["name"] for subject in binding.get("subjects", ())]
        if account not in subjects:
            continue
        where = "cluster"
        if binding["kind"] == "RoleBinding":
            where = binding["metadata"].get("namespace", "cede-system")
        reference = binding["roleRef"]["kind"], binding["roleRef"]["name"]
        for role in documents():
            is_same_place = (
                role["metadata"].get("namespace", "cede-system") == where or where == "cluster"
            )
            if (role["kind"], role["metadata"]["name"]) == reference and is_same_place:
                found_rules += [(where, rule) for rule in role["rules"]]
    return found_rules


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_is_a_wildcard_or_gives_further_rights(account: str) -> None:
    rules = rules_of(account)
    assert rules
    for _, rule in rules:
        texts = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert "*" not in texts
        assert not {"escalate", "impersonate", "deletecollection"} & set(rule["verbs"])
        assert not {"pods/exec", "pods/attach", "serviceaccounts/token"} & set(rule["resources"])
        if "bind" in rule["verbs"]:
            assert rule["resourceNames"] == ["cede-member", "cede-viewer"]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_the_rights_over_secrets_are_these(account: str) -> None:
    """Whoever reads cede-root signs for every team; whoever writes any Secret gets any token."""
    verbs = defaultdict[str, set[str]](set)
    for where, rule in rules_of(account):
        names = rule.get("resourceNames", [ALL_NAMES])
        for resource, name in product(rule["resources"], names):
            if resource == "secrets":
                verbs[f"{where}: {name}"] |= set(rule["verbs"])
    assert {f"{place} {' '.join(sorted(all_))}" for place, all_ in verbs.items()} == SECRETS[
        account
    ]


def test_the_webhook_writes_nothing() -> None:
    """It reads what anybody submits. With the right to its own configurations and to Secrets,
    whoever took it over could change any object that is created, and get any token."""
    for _, rule in rules_of("cede-webhook"):
        assert set(rule["verbs"]) <= {"get", "list", "watch"}


@pytest.mark.parametrize("account", ACCOUNTS)
def test_only_the_quota_controller_writes_admission_configurations_and_only_the_webhooks(
    account: str,
) -> None:
    for _, rule in rules_of(account):
        if "admissionregistration.k8s.io" in rule["apiGroups"]:
            assert account == "cede-quota-controller"
            assert set(rule["resources"]) == {
                "mutatingwebhookconfigurations",
                "validatingwebhookconfigurations",
            }
            assert rule["resourceNames"] == ["cede-webhook"]
            assert set(rule["verbs"]) == {"list", "watch", "patch"}
