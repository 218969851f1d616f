"""A quota_controller that somebody took over cannot give rights to whom it likes."""

from collections.abc import Sequence

import pytest

from cede.api.objects import Json
from tests.harness.admission import Judge
from tests.oracle.test_rights import QUOTA_CONTROLLER, RESERVED, obj

pytestmark = pytest.mark.slow


def binding(
    kind: str,
    role: str,
    where: str = "",
    role_kind: str = "ClusterRole",
    users: Sequence[str] = ("ada",),
) -> Json:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role}
    version = "rbac.authorization.k8s.io/v1"
    # an API server leaves an empty list out
    subjects = {"subjects": [{"kind": "User", "name": user} for user in users]} if users else {}
    return obj(version, kind, "cede-members", where, roleRef=reference, **subjects)


@pytest.mark.parametrize("where", RESERVED)
def test_the_quota_controller_binds_nobody_in_namespaces_of_the_cluster(
    judge: Judge, where: str
) -> None:
    assert judge(binding("RoleBinding", "cede-member", where), QUOTA_CONTROLLER)
    assert judge(binding("RoleBinding", "cede-member", "vision"), QUOTA_CONTROLLER) == []


@pytest.mark.parametrize(
    ("users", "role", "refused"),
    [
        pytest.param(["ada"], "cede-member", False, id="one is removed"),
        pytest.param([], "cede-member", False, id="all are"),
        pytest.param(["ada", "eve"], "cede-member", True, id="another one"),
        pytest.param(["ada"], "cede-viewer", True, id="another role"),
    ],
)
def test_the_quota_controller_only_removes_members_in_namespaces_of_the_cluster(
    judge: Judge, users: list[str], role: str, refused: bool
) -> None:
    """Of a team that had the namespace before."""
    before = binding("RoleBinding", "cede-member", "kubeflow", users=["ada", "ben"])
    after = binding("RoleBinding", role, "kubeflow", users=users)
    assert bool(judge(after, QUOTA_CONTROLLER, old=before)) is refused


def test_in_the_whole_cluster_the_quota_controller_binds_viewers_only(judge: Judge) -> None:
    """As a member in every namespace it would run jobs with any service account."""
    viewers = binding("ClusterRoleBinding", "cede-viewer")
    assert judge(viewers, QUOTA_CONTROLLER) == []
    assert judge(viewers, QUOTA_CONTROLLER, old=viewers) == []
    members = binding("ClusterRoleBinding", "cede-member")
    assert judge(members, QUOTA_CONTROLLER)
    assert judge(members, QUOTA_CONTROLLER, old=members)
    assert judge(members) == [], "others are not looked at"
