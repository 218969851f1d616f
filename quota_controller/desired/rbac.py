"""PURE. What a team's members may do: in their namespace by one binding, and see of what all teams
share by another."""

from collections.abc import Iterable

from cede.api.allocation import ComputeAllocation
from cede.api.objects import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Json
from quota_controller.desired.kueue_objects import SHARED, Target, target

MEMBERS = "cede-members"
"""The binding in a team's namespace to `MEMBER_ROLE`, and the cluster's one to `VIEWER_ROLE`: names
we may write, and no others."""
MEMBER_ROLE = "cede-member"
VIEWER_ROLE = "cede-viewer"
"""ClusterRoles that are shipped with us."""
_RBAC = "rbac.authorization.k8s.io"


def in_namespace(allocation: ComputeAllocation) -> list[Target]:
    """The members' binding; none without members."""
    if not allocation.spec.members:
        return []
    return [
        target(
            ROLE_BINDINGS,
            (allocation.namespace, MEMBERS),
            allocation.metadata.name,
            _binding(MEMBER_ROLE, _subjects(allocation)),
        )
    ]


def for_all(allocations: Iterable[ComputeAllocation]) -> list[Target]:
    """Every member of every team sees the queues, the allocations, the policy and the Cessions.

    One binding for all: so we need the right to write one ClusterRoleBinding and no other.
    """
    subjects = {
        tuple(sorted(subject.items())): subject for a in allocations for subject in _subjects(a)
    }
    if not subjects:
        return []
    listed = [subjects[key] for key in sorted(subjects)]
    return [target(CLUSTER_ROLE_BINDINGS, ("", MEMBERS), SHARED, _binding(VIEWER_ROLE, listed))]


def _binding(role: str, subjects: list[Json]) -> Json:
    return {
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def _subjects(allocation: ComputeAllocation) -> list[Json]:
    return [
        {
            "kind": member.kind,
            "name": member.name,
            "namespace": member.namespace or allocation.namespace,
        }
        if member.kind == "ServiceAccount"
        else {"kind": member.kind, "name": member.name, "apiGroup": _RBAC}
        for member in allocation.spec.members
    ]
