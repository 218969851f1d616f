"""No fault of an admission policy of Cede refuses what it is not about."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cede.api import names
from cede.api.allocation import RESERVED_NAMESPACES
from cede.api.objects import Json
from cede.api.team_security import CONTROLLER_NAMESPACES
from tests.builders.manifests import objects_of_kind
from tests.paths import TREE

TEAM_NAMESPACES = {"matchExpressions": [{"key": names.TEAM, "operator": "Exists"}]}


ONE_ACCOUNT = {"scheduler", "quota-controller", "of-cede"}
"""Names of conditions that match nobody but accounts of Cede: tests/oracle/test_rights.py."""


VALIDATING = "ValidatingAdmissionPolicy"
INSTALLATION = "cede-installation"


BINDING = "ValidatingAdmissionPolicyBinding"
OVERLAYS = sorted((TREE / "deploy/overlays").iterdir())
NARROWS_NOTHING = {"policyName", "validationActions", "paramRef"}


def policies() -> list[Json]:
    made = objects_of_kind(VALIDATING)
    assert len(made) == 19
    return made


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy["metadata"]["name"])
def test_a_policy_that_lacks_its_parameters_refuses_nothing(policy: Json) -> None:
    """An API server that has just started does not find any, and a policy that fails then refuses
    every request that it matches, whatever its binding selects (k8s.io/apiserver:
    plugin/policy/generic)."""
    assert "paramKind" not in policy["spec"] or policy["spec"]["failurePolicy"] == "Ignore"


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy["metadata"]["name"])
def test_every_policy_is_bound_and_denies(policy: Json) -> None:
    """An API server does not evaluate a policy without a binding."""
    name = policy["metadata"]["name"]
    [binding] = [b["spec"] for b in objects_of_kind(BINDING) if b["spec"]["policyName"] == name]
    assert binding["validationActions"] == ["Deny"]
    assert binding.keys() <= NARROWS_NOTHING
    assert ("paramRef" in binding) is ("paramKind" in policy["spec"])


def test_every_binding_is_of_a_policy_here() -> None:
    names_of_policies = {policy["metadata"]["name"] for policy in policies()}
    assert {b["spec"]["policyName"] for b in objects_of_kind(BINDING)} == names_of_policies


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda overlay: overlay.name)
def test_every_overlay_has_all_policies_and_changes_none(overlay: Path) -> None:
    """But those of deploy/components, each of which brings its own."""
    files = set[Path]()
    for kustomization in kustomizations(overlay):
        content = yaml.safe_load((kustomization / "kustomization.yaml").read_text())
        assert content.keys().isdisjoint(
            {"patchesStrategicMerge", "patchesJson6902", "replacements"}
        )
        targets = {patch["target"]["kind"] for patch in content.get("patches", ())}
        assert targets <= {"Deployment"}
        files |= {kustomization / resource for resource in content["resources"]}
    for kind in (VALIDATING, BINDING):
        everywhere = {file for file in files_with(kind) if "components" not in file.parts}
        assert everywhere <= {file.resolve() for file in files}


def kustomizations(folder: Path) -> Iterator[Path]:
    """This folder and those that it includes."""
    yield folder
    content = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for resource in content.get("resources", []) + content.get("components", []):
        if (folder / resource).is_dir():
            yield from kustomizations((folder / resource).resolve())


def files_with(kind: str) -> set[Path]:
    files = (TREE / "deploy").rglob("*.yaml")
    return {file.resolve() for file in files if f"\nkind: {kind}\n" in file.read_text()}


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy["metadata"]["name"])
def test_a_policy_about_work_matches_only_the_namespaces_of_teams(policy: Json) -> None:
    """Or one account of Cede, and nobody else."""
    conditions = {entry["name"] for entry in policy["spec"].get("matchConditions", [])}
    if conditions & ONE_ACCOUNT:
        return
    constraints = policy["spec"]["matchConstraints"]
    kinds = {kind for rule in constraints["resourceRules"] for kind in rule["resources"]}
    if kinds & {"pods", "jobs", "deployments/scale"}:
        assert constraints["namespaceSelector"] == TEAM_NAMESPACES


def test_the_policy_about_a_second_installation_names_all_bindings_of_accounts() -> None:
    """Of the whole cluster, and of the namespace of guards."""
    [policy] = [policy for policy in policies() if policy["metadata"]["name"] == INSTALLATION]
    [condition] = policy["spec"]["matchConditions"]
    in_cluster, in_guards = re.findall(r"request\.name in (\[[^]]*\])", condition["expression"])
    bindings = {binding["metadata"]["name"] for binding in objects_of_kind("ClusterRoleBinding")}
    assert set(ast.literal_eval(in_cluster)) == bindings
    of_guards = {
        binding["metadata"]["name"]
        for binding in objects_of_kind("RoleBinding")
        if binding["metadata"].get("namespace") == names.GUARD_NAMESPACE
    }
    assert set(ast.literal_eval(in_guards)) == of_guards


@pytest.mark.parametrize("name", ["cede-team-objects", "cede-namespaces"])
def test_the_namespaces_of_the_cluster_are_those_that_no_allocation_may_have(name: str) -> None:
    [policy] = [policy for policy in policies() if policy["metadata"]["name"] == name]
    variables = {entry["name"]: entry["expression"] for entry in policy["spec"]["variables"]}
    assert ast.literal_eval(variables["reserved"]) == list(RESERVED_NAMESPACES)


def test_the_policies_that_ask_for_controllers_know_the_same_ones() -> None:
    """Of all of them, whatever the ClusterPolicy adds."""
    variables = [entry for policy in policies() for entry in policy["spec"].get("variables", ())]
    expressions = {entry["expression"] for entry in variables if entry["name"] == "controllers"}
    [expression] = expressions
    always, _, added = expression.partition(" + ")
    assert ast.literal_eval(always) == list(CONTROLLER_NAMESPACES)
    assert names.CONTROLLERS in added
