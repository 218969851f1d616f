"""A quota_controller that somebody took over cannot give rights to whom it likes."""

from collections.abc import Sequence

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.builders.requests import QUOTA_CONTROLLER, obj
from tests.harness.admission import Judge
from tests.oracle.test_rights import RESERVED

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


# --- a second installation ------------------------------------------------------------------------
def rights(name: str, *subjects: Json, where: str = "", kind: str = "ClusterRoleBinding") -> Json:
    """The binding of this name, of the role with the same name."""
    made = binding(kind, name, where, users=())
    made["metadata"]["name"] = name
    return made | ({"subjects": list(subjects)} if subjects else {})


def account(namespace: str, name: str = names.SCHEDULER) -> Json:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


ADMIN = "admin"
HERE = account(names.SYSTEM_NAMESPACE)
ELSEWHERE = account("other")
SOMEBODY = {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}


@pytest.mark.parametrize(
    ("made", "refused"),
    [
        pytest.param(rights("cede-scheduler", HERE), False, id="the first, or again"),
        pytest.param(rights("cede-scheduler", ELSEWHERE), True, id="another namespace"),
        pytest.param(rights("cede-webhook", HERE, ELSEWHERE), True, id="both"),
        pytest.param(rights("cede-ledger", SOMEBODY), False, id="a user"),
        pytest.param(rights("cede-ledger"), False, id="nobody"),
        pytest.param(rights("cede-members", ELSEWHERE), False, id="members of teams"),
        pytest.param(rights("theirs", ELSEWHERE), False, id="of others"),
        pytest.param(
            rights("cede-scheduler", ELSEWHERE, where="cede-guard", kind="RoleBinding"),
            True,
            id="of guards",
        ),
        pytest.param(
            rights("cede-scheduler", ELSEWHERE, where="other", kind="RoleBinding"),
            False,
            id="in a namespace of others",
        ),
    ],
)
def test_a_second_installation_takes_no_rights(judge: Judge, made: Json, refused: bool) -> None:
    messages = judge(made, ADMIN)
    assert bool(messages) is refused, messages
    assert all("once in a cluster" in message for message in messages)


def test_a_second_installation_takes_no_rights_of_the_first(judge: Judge) -> None:
    before, after = rights("cede-scheduler", HERE), rights("cede-scheduler", ELSEWHERE)
    assert judge(after, ADMIN, old=before)
    assert judge(before, ADMIN, old=after) == [], "taken back"


def test_bindings_that_were_taken_before_are_deleted_like_others(judge: Judge) -> None:
    """The garbage collector changes their finalizers."""
    taken = rights("cede-scheduler", ELSEWHERE)
    in_deletion = {**taken, "metadata": taken["metadata"] | {"finalizers": ["foregroundDeletion"]}}
    assert judge(taken, ADMIN, old=in_deletion) == []
    assert judge(taken, ADMIN, deletion={}) == []
