"""The rights of every account are those of rights.txt, no more and no less."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from cede.api.objects import Json
from tests.builders.manifests import all_objects

Right = tuple[str, str, str]
"""(where, group/resource with a name, verb)"""
LISTED = Path(__file__).with_name("rights.txt")
BOUND_BY_THE_QUOTA_CONTROLLER = {"cede-member", "cede-viewer"}


def listed() -> dict[str, list[Right]]:
    """Raises AssertionError for an account that does not begin with a reason. A reason may be that
    of several lines."""
    rights = dict[str, list[Right]]()
    account, has_reason = "", False
    for line in LISTED.read_text().splitlines():
        if line.startswith("["):
            account, has_reason = line.strip("[]"), False
            rights[account] = []
        elif line.startswith("# "):
            has_reason = True
        elif line:
            assert has_reason, line
            where, what, verbs = line.split(": ")
            rights[account] += [(where, what, verb) for verb in verbs.split()]
    return rights


@cache
def documents() -> list[Json]:
    return [made for made in all_objects() if "rbac" in made.get("apiVersion", "")]


def rights_of(role: Json) -> Iterator[Right]:
    where = "cluster"
    if role["kind"] == "Role":
        where = role["metadata"].get("namespace", "cede-system")
    for rule in role["rules"]:
        assert rule.keys() <= {"apiGroups", "resources", "resourceNames", "verbs"}
        names = rule.get("resourceNames", [""])
        for group, resource, name in product(rule["apiGroups"], rule["resources"], names):
            what = f"{group or 'core'}/{resource} {name}".strip()
            yield from ((where, what, verb) for verb in rule["verbs"])


def account_of(subject: Json) -> str:
    """Its name; with its kind and namespace if it is none of Cede's own."""
    kind, namespace, name = (subject.get(field, "") for field in ("kind", "namespace", "name"))
    is_ours = (kind, namespace) == ("ServiceAccount", "cede-system")
    return name if is_ours else f"{kind} {namespace}/{name}"


@cache
def granted() -> dict[str, set[Right]]:
    """By account, and of the roles that the manifests bind to nobody."""
    rights = dict[str, set[Right]]()
    for role in documents():
        if "rules" not in role:
            continue
        metadata = role["metadata"]
        subjects = {
            account_of(subject)
            for binding in documents()
            if binding.get("roleRef", {}).get("kind") == role["kind"]
            and binding["roleRef"]["name"] == metadata["name"]
            and (
                role["kind"] == "ClusterRole"
                or binding["metadata"].get("namespace") == metadata.get("namespace")
            )
            for subject in binding["subjects"]
        }
        assert subjects or metadata["name"] in BOUND_BY_THE_QUOTA_CONTROLLER
        for subject in subjects or {metadata["name"]}:
            rights.setdefault(subject, set()).update(rights_of(role))
    return rights


def test_an_account_of_the_same_name_elsewhere_is_another_one() -> None:
    ours = {"kind": "ServiceAccount", "namespace": "cede-system", "name": "cede-scheduler"}
    assert account_of(ours) == "cede-scheduler"
    for field, value in (("kind", "User"), ("namespace", "vision")):
        assert account_of(ours | {field: value}) not in listed()


def test_every_account_is_listed() -> None:
    assert granted().keys() == listed().keys()


@pytest.mark.parametrize("account", listed())
def test_the_rights_of_an_account_are_the_listed_ones(account: str) -> None:
    rights = listed()[account]
    assert granted()[account] == set(rights)
    assert len(rights) == len(set(rights)), "each once"
