"""PURE. The rights of a team's members: in their namespace, and on what all teams share."""

from collections.abc import Collection, Iterable

from cede.api.allocation import ComputeAllocation, Member
from cede.api.objects import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Json
from quota_controller.desired.desired_object import (
    SHARED,
    DesiredObject,
    LiveObjects,
    desired_object,
    owner_of,
)

MEMBERS = "cede-members"
"""The RoleBinding of `MEMBER_ROLE` in a team's namespace, and the ClusterRoleBinding of
`VIEWER_ROLE`. The quota_controller has the right to write bindings of this name only."""
MEMBER_ROLE = "cede-member"
VIEWER_ROLE = "cede-viewer"
"""ClusterRoles that are installed with Cede."""
_RBAC_GROUP = "rbac.authorization.k8s.io"


def member_bindings(allocation: ComputeAllocation) -> list[DesiredObject]:
    """The RoleBinding of the members in the team's namespace; none without members."""
    if not allocation.spec.members:
        return []
    subjects = _subjects(allocation)
    return [
        desired_object(
            ROLE_BINDINGS,
            (allocation.namespace, MEMBERS),
            allocation.metadata.name,
            _binding(MEMBER_ROLE, subjects),
        )
    ]


def bindings_with_fewer(allocation: ComputeAllocation, live: LiveObjects) -> list[DesiredObject]:
    """The live RoleBinding without those who are no members any more; none if all of them are.

    For a namespace in which nobody gets rights. A person who is no member any more loses theirs.
    """
    key = (allocation.namespace, MEMBERS)
    binding = live.get((ROLE_BINDINGS, key))
    owner = allocation.metadata.name
    if binding is None or owner_of(binding) != owner:
        return []
    members = _subjects(allocation)
    bound = binding.get("subjects") or []
    staying = [subject for subject in bound if subject in members]
    if len(staying) == len(bound):
        return []
    desired = desired_object(ROLE_BINDINGS, key, owner, _binding(MEMBER_ROLE, staying))
    # the server refuses to create an object with a uid
    desired.body["metadata"]["uid"] = binding["metadata"]["uid"]
    return [desired]


def viewer_bindings(
    allocations: Iterable[ComputeAllocation], others: Collection[str], live: LiveObjects
) -> list[DesiredObject]:
    """The ClusterRoleBinding by which all members see queues, allocations, policy and Cessions.

    It is one for all teams, so that the quota_controller needs the right to write one
    ClusterRoleBinding and no other. Of `others` the members are those who have rights now.
    """
    members = [subject for allocation in allocations for subject in _subjects(allocation)]
    for (kind, _), binding in live.items():
        if kind == ROLE_BINDINGS and owner_of(binding) in others:
            members += binding.get("subjects") or []
    subjects = {tuple(sorted(subject.items())): subject for subject in members}
    if not subjects:
        return []
    ordered = [subjects[key] for key in sorted(subjects)]
    return [
        desired_object(CLUSTER_ROLE_BINDINGS, ("", MEMBERS), SHARED, _binding(VIEWER_ROLE, ordered))
    ]


def _binding(role: str, subjects: list[Json]) -> Json:
    return {
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def _subjects(allocation: ComputeAllocation) -> list[Json]:
    return [_subject(member, allocation.namespace) for member in allocation.spec.members]


def _subject(member: Member, team_namespace: str) -> Json:
    subject = {"kind": member.kind, "name": member.name}
    if member.kind == "ServiceAccount":
        return {**subject, "namespace": member.namespace or team_namespace}
    return {**subject, "apiGroup": _RBAC_GROUP}
