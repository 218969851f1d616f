"""No fault of an admission policy of Cede refuses what it is not about."""

import ast

import pytest
import yaml

from cede.api import names
from cede.api.allocation import RESERVED_NAMESPACES
from cede.api.objects import Json
from tests.paths import TREE

TEAM_NAMESPACES = {"matchExpressions": [{"key": names.TEAM, "operator": "Exists"}]}


ONE_ACCOUNT = {"scheduler", "quota-controller", "of-cede"}
"""Names of conditions that match nobody but accounts of Cede: tests/oracle/test_rights.py."""


def policies() -> list[Json]:
    documents = [
        document
        for file in sorted((TREE / "deploy").rglob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document and document.get("kind") == "ValidatingAdmissionPolicy"
    ]
    assert len(documents) == 17
    return documents


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy["metadata"]["name"])
def test_a_policy_that_lacks_its_parameters_refuses_nothing(policy: Json) -> None:
    """An API server that has just started does not find any, and a policy that fails then refuses
    every request that it matches, whatever its binding selects (k8s.io/apiserver:
    plugin/policy/generic)."""
    assert "paramKind" not in policy["spec"] or policy["spec"]["failurePolicy"] == "Ignore"


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


@pytest.mark.parametrize("name", ["cede-team-objects", "cede-namespaces"])
def test_the_namespaces_of_the_cluster_are_those_that_no_allocation_may_have(name: str) -> None:
    [policy] = [policy for policy in policies() if policy["metadata"]["name"] == name]
    variables = {entry["name"]: entry["expression"] for entry in policy["spec"]["variables"]}
    assert ast.literal_eval(variables["reserved"]) == list(RESERVED_NAMESPACES)
