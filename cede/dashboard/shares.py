"""PURE. Teams × accelerators: what each team owns, uses, lends and borrows, as numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import QuotaStatus
from cede.api.objects import condition
from cede.api.policy import TypeStatus
from cede.api.resources import parse


@dataclass(frozen=True)
class Share:
    """One team's part of one kind of accelerator, in accelerators."""

    # the instance type
    type: str
    # such as nvidia.com/gpu
    resource: str
    owns: int
    # the quota of its queue now: less than it owns while healthy nodes hold less
    quota: int
    uses: int
    lends: int
    borrows: int


@dataclass(frozen=True)
class TeamRow:
    name: str
    namespace: str
    shares: tuple[Share, ...]
    # workloads that wait in its queue
    waiting: int
    ready: bool
    # why it is not ready, with the cure
    problem: str


@dataclass(frozen=True)
class TypeRow:
    """One kind of accelerator in the whole cluster."""

    type: str
    resource: str
    nodes: int
    healthy_nodes: int
    # accelerators of the healthy nodes
    healthy: int
    uses: int
    # what teams use of the quota of others, or beyond all quotas
    borrows: int


def team_row(allocation: ComputeAllocation) -> TeamRow:
    status = allocation.status
    ready = condition(status.conditions, names.READY)
    is_ready = bool(ready and ready["status"] == "True")
    return TeamRow(
        name=allocation.team,
        namespace=status.namespace or allocation.namespace,
        shares=tuple(share for quota in status.quotas for share in _shares(quota)),
        waiting=status.waiting,
        ready=is_ready,
        problem="" if is_ready or not ready else str(ready["message"]),
    )


def _shares(quota: QuotaStatus) -> Iterable[Share]:
    nominal, healthy = parse(quota.nominal), parse(quota.healthy)
    used, lent, borrowed = parse(quota.used), parse(quota.lent), parse(quota.borrowed)
    for resource in sorted({*nominal, *used}):
        if "/" not in resource or not (nominal[resource] or used[resource]):
            continue
        yield Share(
            type=quota.instanceType,
            resource=resource,
            owns=nominal[resource],
            quota=healthy[resource],
            uses=used[resource],
            lends=lent[resource],
            borrows=borrowed[resource],
        )


def type_rows(types: Iterable[TypeStatus], teams: Mapping[str, TeamRow]) -> tuple[TypeRow, ...]:
    """A row for each kind of accelerator, in the order of the policy."""
    shares = [share for team in teams.values() for share in team.shares]
    return tuple(
        _type_row(type_, resource, amount, shares)
        for type_ in types
        for resource, amount in sorted(parse(type_.healthy).items())
        if "/" in resource
    )


def _type_row(type_: TypeStatus, resource: str, healthy: int, shares: list[Share]) -> TypeRow:
    own = [share for share in shares if (share.type, share.resource) == (type_.name, resource)]
    return TypeRow(
        type=type_.name,
        resource=resource,
        nodes=type_.nodes,
        healthy_nodes=type_.healthyNodes,
        healthy=healthy,
        uses=sum(share.uses for share in own),
        borrows=sum(share.borrows for share in own),
    )
