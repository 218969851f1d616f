"""What `cede doctor` says of the namespaces of teams."""

from typing import Any

import pytest

from cede.api import names
from cede.api.kueue import MetadataOnly
from cede.api.objects import Meta
from cede.api.policy import PolicySpec
from cede.report.installation_facts import Finding, Installation, State, Unread
from cede.report.team_namespaces import OWNERS, POD_SECURITY, namespace_findings
from tests.builders.reports import policy


def namespace(name: str, enforce: str = "baseline") -> MetadataOnly:
    """Without a level if `enforce` is empty."""
    level = {names.POD_SECURITY_ENFORCE: enforce} if enforce else {}
    return MetadataOnly(Meta(name=name, labels={names.TEAM: "t", **level}))


def findings_about(
    subject: str, team_namespaces: list[MetadataOnly] | Unread, **security: Any
) -> list[Finding]:
    """The findings about this subject, with these settings of the policy."""
    spec = PolicySpec.model_validate({"security": security})
    cluster = Installation(
        kubernetes=None,
        kueue="",
        policy=policy().model_copy(update={"spec": spec}),
        team_namespaces=team_namespaces,
    )
    return [item for item in namespace_findings(cluster) if item.subject == subject]


def test_namespaces_of_teams_alone_are_right() -> None:
    [result] = findings_about(OWNERS, [namespace("vision"), namespace("lab")])
    assert (result.state, result.message) == (
        State.OK,
        "2, none of them of the cluster or of controllers",
    )


@pytest.mark.parametrize("security", [{}, {"controllerNamespaces": ["kubeflow", "ci"]}])
def test_a_team_in_a_namespace_of_the_cluster_is_wrong(security: dict[str, Any]) -> None:
    [result] = findings_about(OWNERS, [namespace("vision"), namespace("kubeflow")], **security)
    assert (result.state, result.message) == (
        State.WRONG,
        "kubeflow: members could use service accounts with rights over the cluster, or that no "
        "quota binds: give the team another one, and `kubectl label namespace kubeflow "
        "cede.dev/team- cede.dev/allocation-`",
    )


def test_a_team_in_a_namespace_of_the_policys_controllers_is_wrong() -> None:
    [result] = findings_about(OWNERS, [namespace("ci")], controllerNamespaces=["kube-system", "ci"])
    assert result.state is State.WRONG
    assert result.message.endswith(
        "or remove ci from spec.security.controllerNamespaces of the ClusterPolicy if no "
        "controller runs there"
    )


def test_namespaces_that_may_not_be_listed_are_unknown() -> None:
    states = [
        item.state
        for subject in (OWNERS, POD_SECURITY)
        for item in findings_about(subject, Unread.FORBIDDEN)
    ]
    assert states == [State.UNKNOWN, State.UNKNOWN]


def test_each_namespace_without_a_level_of_pod_security_is_wrong_and_has_its_cure() -> None:
    unset = [namespace("lab", ""), namespace("vision"), namespace("old", "")]
    results = findings_about(POD_SECURITY, unset, podSecurity="restricted")
    assert [item.state for item in results] == [State.WRONG, State.WRONG]
    for item, name in zip(results, ("lab", "old"), strict=True):
        assert item.message.startswith(f"namespace {name} enforces no level")
        cure = f"`kubectl label namespace {name} pod-security.kubernetes.io/enforce=restricted`"
        assert cure in item.message


def test_a_level_that_an_admin_has_chosen_is_right() -> None:
    [result] = findings_about(POD_SECURITY, [namespace("vision"), namespace("lab", "privileged")])
    assert result.state is State.OK
