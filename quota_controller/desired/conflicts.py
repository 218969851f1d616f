"""PURE. What is wrong with an allocation that it takes the cluster to know: the reason in a word,
and a sentence with the cure."""

from collections.abc import Iterable, Mapping

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.objects import NAMESPACES, Json, Key, Kind
from cede.api.policy import ClusterPolicy

Live = Mapping[tuple[Kind, Key], Json]
"""Our labelled objects and all namespaces, as the server has them."""
Problems = dict[str, tuple[str, str]]
"""Allocation → (reason, sentence)."""


def owner_of(obj: Json) -> str:
    """The allocation an object says it comes from; empty for what is not ours."""
    return str((obj["metadata"].get("labels") or {}).get(names.ALLOCATION, ""))


def of_teams(allocations: Iterable[ComputeAllocation], live: Live) -> Problems:
    """Allocations that cannot have the team or the namespace they name: nothing of theirs in any
    namespace is touched.

    Of several that want the same, the one keeps it that has it, else the oldest.
    """
    allocations = list(allocations)
    out = _taken_teams(allocations, live)
    out |= _namespaces([a for a in allocations if a.metadata.name not in out], live)
    return out


def _taken_teams(allocations: Iterable[ComputeAllocation], live: Live) -> Problems:
    holders = {
        (str(obj["metadata"]["labels"].get(names.TEAM, "")), owner)
        for (kind, _), obj in live.items()
        if kind == NAMESPACES and (owner := owner_of(obj))
    }
    claims: dict[str, list[ComputeAllocation]] = {}
    for a in allocations:
        claims.setdefault(a.team, []).append(a)
    out: Problems = {}
    for team, claimants in claims.items():
        first = min(
            claimants,
            key=lambda a: (
                (team, a.metadata.name) not in holders,
                a.metadata.created,
                a.metadata.name,
            ),
        )
        for other in claimants:
            if other is not first:
                cure = "put its quotas there and delete this one, or name another team"
                out[other.metadata.name] = (
                    "TeamTaken",
                    f"team {team} has allocation {first.metadata.name} already: {cure}",
                )
    return out


def _namespaces(allocations: Iterable[ComputeAllocation], live: Live) -> Problems:
    claims: dict[str, list[ComputeAllocation]] = {}
    for a in allocations:
        claims.setdefault(a.namespace, []).append(a)
    out: Problems = {}
    for namespace, claimants in claims.items():
        there = live.get((NAMESPACES, ("", namespace)))
        holder = owner_of(there) if there else ""
        first = min(
            claimants,
            key=lambda a: (a.metadata.name != holder, a.metadata.created, a.metadata.name),
        )
        for other in claimants:
            if other is not first:
                why = (
                    f"namespace {namespace} belongs to allocation {first.metadata.name}: name "
                    f"another by namespace.name"
                )
                out[other.metadata.name] = ("NamespaceTaken", why)
        if there and not holder and not _may_take(there, first):
            why = (
                f"namespace {namespace} exists and is not ours: set namespace.adopt: true to "
                f"use it, or name another"
            )
            out[first.metadata.name] = ("NamespaceExists", why)
        elif there and there["metadata"].get("deletionTimestamp"):
            out[first.metadata.name] = (
                "NamespaceTerminating",
                f"namespace {namespace} is being deleted: it is made anew when gone",
            )
    return out


def _may_take(namespace: Json, allocation: ComputeAllocation) -> bool:
    """Asked to adopt it, or we made it for an allocation that is gone."""
    made = (namespace["metadata"].get("labels") or {}).get(
        names.MANAGED_BY
    ) == names.MANAGED_BY_CEDE
    return made or bool(allocation.spec.namespace and allocation.spec.namespace.adopt)


def of_content(allocations: Iterable[ComputeAllocation], policy: ClusterPolicy) -> Problems:
    """What an allocation names and the policy does not know. The rest of it holds."""
    types = [type_.name for type_ in policy.spec.instanceTypes]
    classes = [one.name for one in policy.spec.priorityClasses]
    out: Problems = {}
    for a in allocations:
        wanted = {entry.instanceType for entry in (*a.spec.quotas, *a.spec.sharing.borrowLimits)}
        if unknown := sorted(wanted - set(types)):
            known = ", ".join(types) or "none yet"
            why = (
                f"the policy has no instance type {', '.join(unknown)}: add it there, or use "
                f"one of {known}"
            )
            out[a.metadata.name] = ("UnknownInstanceType", why)
        elif absent := _absent_partitions(a, policy):
            cure = "name it in the type's partitions, or use another"
            out[a.metadata.name] = (
                "UnknownPartition",
                f"the policy knows no partition {', '.join(absent)}: {cure}",
            )
        elif a.spec.maxPriorityClass and a.spec.maxPriorityClass not in classes:
            known = ", ".join(classes) or "none yet"
            why = f"the policy has no priority class {a.spec.maxPriorityClass}: use one of {known}"
            out[a.metadata.name] = ("UnknownPriorityClass", why)
    return out


def _absent_partitions(allocation: ComputeAllocation, policy: ClusterPolicy) -> list[str]:
    """`<partition> of <type>`: what is asked of a type that does not have it."""
    types = {type_.name: type_ for type_ in policy.spec.instanceTypes}
    return sorted(
        f"{name} of {entry.instanceType}"
        for entry in (*allocation.spec.quotas, *allocation.spec.sharing.borrowLimits)
        for name in entry.partitions or {}
        if name not in types[entry.instanceType].partitions
    )
