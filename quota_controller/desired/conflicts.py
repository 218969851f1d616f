"""PURE. Allocations that conflict with others, a namespace or the policy, with the cure."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from cede.api import names
from cede.api.allocation import ComputeAllocation, is_reserved
from cede.api.objects import NAMESPACES, Json
from cede.api.policy import ClusterPolicy
from cede.api.reasons import AllocationReason, Reason
from cede.api.verdict import Verdict
from quota_controller.desired.desired_object import LiveObjects, owner_of


class Problem(NamedTuple):
    """Why an allocation, or what all teams share, is not in place."""

    reason: Reason
    # one sentence, with the cure
    message: str


def failed(problem: Problem) -> Verdict:
    """The verdict False for this problem."""
    return Verdict(False, problem.reason, problem.message)


Problems = Mapping[str, Problem]
"""Problems by allocation, or by `SHARED` for what all teams share."""


def ownership_conflicts(
    allocations: Iterable[ComputeAllocation],
    live: LiveObjects,
    controllers: Collection[str],
    current: Mapping[str, str],
) -> dict[str, Problem]:
    """Allocations that cannot have the team or the namespace that they name.

    Nothing of them is written to or deleted from any namespace, except that former members lose
    their rights in one that is reserved. If several allocations name the same team or namespace,
    the one that has it keeps it, else the oldest gets it. `controllers` are the namespaces whose
    service accounts the policy trusts as controllers: no team may have one. `current` has the
    namespaces in which jobs may hold quota, by allocation: nobody else gets one of them.
    """
    allocations = list(allocations)
    wanted = {a.metadata.name: a.wanted_namespace for a in allocations}
    conflicts = reserved_namespaces(wanted, controllers)
    allocations = [a for a in allocations if a.metadata.name not in conflicts]
    conflicts |= _team_conflicts(allocations, live)
    without_conflict = [a for a in allocations if a.metadata.name not in conflicts]
    return conflicts | _namespace_conflicts(without_conflict, live, current)


def reserved_namespaces(
    namespaces: Mapping[str, str], controllers: Collection[str]
) -> dict[str, Problem]:
    """Those of these allocations whose namespace no team may have."""
    conflicts = {}
    for name, namespace in namespaces.items():
        cause = ""
        if is_reserved(namespace):
            cause = "belongs to the cluster: set namespace.name to another one"
        elif namespace in controllers:
            cause = (
                "is in spec.security.controllerNamespaces of the ClusterPolicy, so its service "
                "accounts are bound by no quota: set namespace.name to another one, or remove it "
                "there if no controller runs in it"
            )
        if cause:
            conflicts[name] = Problem(
                AllocationReason.NAMESPACE_RESERVED,
                f"namespace {namespace} {cause}; until then nobody gets rights in it, and members "
                "who have them keep them until they are removed from spec.members",
            )
    return conflicts


def _team_conflicts(
    allocations: Iterable[ComputeAllocation], live: LiveObjects
) -> dict[str, Problem]:
    owners_by_team: dict[str, set[str]] = {}
    for (kind, _), obj in live.items():
        if kind == NAMESPACES and owner_of(obj):
            team = str(obj["metadata"]["labels"].get(names.TEAM, ""))
            owners_by_team.setdefault(team, set()).add(owner_of(obj))
    candidates_by_team: dict[str, list[ComputeAllocation]] = {}
    for allocation in allocations:
        candidates_by_team.setdefault(allocation.team, []).append(allocation)
    conflicts = {}
    for team, candidates in candidates_by_team.items():
        owner = _rightful_owner(candidates, owners_by_team.get(team, set()))
        for other in candidates:
            if other is not owner:
                conflicts[other.metadata.name] = Problem(
                    AllocationReason.TEAM_TAKEN,
                    f"team {team} already has allocation {owner.metadata.name}: "
                    "add the quotas there and delete this one, or name another team",
                )
    return conflicts


def _namespace_conflicts(
    allocations: Iterable[ComputeAllocation], live: LiveObjects, current: Mapping[str, str]
) -> dict[str, Problem]:
    candidates_by_namespace: dict[str, list[ComputeAllocation]] = {}
    for allocation in allocations:
        candidates_by_namespace.setdefault(allocation.wanted_namespace, []).append(allocation)
    users = {namespace: name for name, namespace in current.items()}
    conflicts = {}
    for name, candidates in candidates_by_namespace.items():
        namespace = live.get((NAMESPACES, ("", name)))
        owner = _rightful_owner(candidates, {owner_of(namespace)} if namespace else set())
        owner_name = users.get(name, owner.metadata.name)
        for other in candidates:
            if other.metadata.name != owner_name:
                conflicts[other.metadata.name] = Problem(
                    AllocationReason.NAMESPACE_TAKEN,
                    f"namespace {name} belongs to allocation {owner_name}: "
                    "set namespace.name to another one",
                )
        problem = _namespace_problem(namespace, owner) if namespace else None
        if problem and owner.metadata.name == owner_name:
            conflicts[owner.metadata.name] = problem
    return conflicts


def _rightful_owner(
    candidates: Iterable[ComputeAllocation], current_names: set[str]
) -> ComputeAllocation:
    """The candidate that has it already, else the oldest, else the first by name."""
    return min(
        candidates,
        key=lambda a: (a.metadata.name not in current_names, a.metadata.created, a.metadata.name),
    )


def _namespace_problem(namespace: Json, allocation: ComputeAllocation) -> Problem | None:
    """Why the allocation cannot use this namespace, which belongs to no other allocation."""
    name = namespace["metadata"]["name"]
    if not _may_take(namespace, allocation):
        return Problem(
            AllocationReason.NAMESPACE_EXISTS,
            f"namespace {name} exists and was not created by Cede for this allocation: "
            "set namespace.adopt to true to use it, or name another",
        )
    if namespace["metadata"].get("deletionTimestamp"):
        return Problem(
            AllocationReason.NAMESPACE_TERMINATING,
            f"namespace {name} is being deleted: it is created again after that",
        )
    return None


def _may_take(namespace: Json, allocation: ComputeAllocation) -> bool:
    """Whether the allocation has it, the admin allows its adoption, or Cede created it for one of
    this name that is gone. Many tools write the label of a manager, so that does not count."""
    annotations = namespace["metadata"].get("annotations") or {}
    created_for = annotations.get(names.CREATED_FOR)
    may_adopt = bool(allocation.spec.namespace and allocation.spec.namespace.adopt)
    return may_adopt or allocation.metadata.name in (owner_of(namespace), created_for)


def unknown_names(
    allocations: Iterable[ComputeAllocation], policy: ClusterPolicy
) -> dict[str, Problem]:
    """Allocations that name something the policy does not have. The rest of their spec applies."""
    problems = {}
    for allocation in allocations:
        problem = _unknown_name(allocation, policy)
        if problem:
            problems[allocation.metadata.name] = problem
    return problems


def _unknown_name(allocation: ComputeAllocation, policy: ClusterPolicy) -> Problem | None:
    spec = allocation.spec
    entries = [*spec.quotas, *spec.sharing.borrowLimits]
    types = {type_.name: type_ for type_ in policy.spec.instanceTypes}
    unknown_types = sorted({entry.instanceType for entry in entries} - types.keys())
    if unknown_types:
        return Problem(
            AllocationReason.UNKNOWN_INSTANCE_TYPE,
            f"the policy has no instance type {', '.join(unknown_types)}: "
            f"add it there, or use one of {', '.join(types) or 'none yet'}",
        )
    unknown_partitions = sorted(
        f"{name} of {entry.instanceType}"
        for entry in entries
        for name in entry.partitions or {}
        if name not in types[entry.instanceType].partitions
    )
    if unknown_partitions:
        return Problem(
            AllocationReason.UNKNOWN_PARTITION,
            f"the policy has no partition {', '.join(unknown_partitions)}: "
            "add it to the type's partitions, or use another",
        )
    classes = [class_.name for class_ in policy.spec.priorityClasses]
    if spec.maxPriorityClass and spec.maxPriorityClass not in classes:
        return Problem(
            AllocationReason.UNKNOWN_PRIORITY_CLASS,
            f"the policy has no priority class {spec.maxPriorityClass}: "
            f"use one of {', '.join(classes) or 'none yet'}",
        )
    return None
