"""PURE. (policy, allocations, nodes) → the objects that should exist, those that should not, and
why."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cede.api import names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Node
from cede.api.objects import CLUSTER_QUEUES, NAMESPACES, SECRETS, Key, Kind
from cede.api.pods import DaemonSet
from cede.api.policy import ClusterPolicy
from cede.api.resources import Quota
from elastic_runtime.contract import derive_key
from quota_controller.desired import kueue_objects, rbac
from quota_controller.desired.borrowing import Account, account, free, lending_limits
from quota_controller.desired.capacity import (
    Shares,
    Supply,
    borrowing_limits,
    owned,
    shared_out,
    supplies,
)
from quota_controller.desired.conflicts import Live, of_content, of_teams, owner_of
from quota_controller.desired.kueue_objects import SHARED, Target
from quota_controller.status.kueue_config import Kueue


@dataclass(frozen=True)
class Seen:
    """One picture of the cluster."""

    policy: ClusterPolicy | None
    allocations: tuple[ComputeAllocation, ...]
    nodes: tuple[Node, ...]
    daemons: tuple[DaemonSet, ...]
    live: Live
    # the scheduler that leads; empty when none has renewed its lease within the watchdog's time
    leader: str
    # the key that the namespaces' keys are derived from; empty when it is lost
    root: bytes
    kueue: Kueue = field(default_factory=Kueue)


@dataclass(frozen=True)
class Plan:
    """What should be, and the figures it came from: the statuses are told from it."""

    targets: tuple[Target, ...] = ()
    # allocations of which nothing in a namespace is deleted
    kept: frozenset[str] = frozenset()
    # allocations that are drained: what is theirs goes
    leaving: frozenset[str] = frozenset()
    # (namespace, uid): gives up our labels
    abandoned: tuple[tuple[Key, str], ...] = ()
    # allocation → (reason, sentence)
    problems: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    supply: Mapping[str, Supply] = field(default_factory=dict)
    owns: Mapping[str, Quota] = field(default_factory=dict)
    shares: Shares = field(default_factory=lambda: Shares({}, Quota()))
    account: Account = field(default_factory=Account)
    # allocation → what its next job could have
    free: Mapping[str, Quota] = field(default_factory=dict)
    cede_takes_back: bool = False

    def unwanted(self, live: Live) -> list[tuple[Kind, Key, str]]:
        """(kind, key, uid) of our labelled objects that should not exist; never a namespace."""
        wanted = {(target.kind, target.key) for target in self.targets}
        return [
            (kind, key, obj["metadata"].get("uid", ""))
            for (kind, key), obj in live.items()
            if kind != NAMESPACES
            and (kind, key) not in wanted
            and owner_of(obj)
            and owner_of(obj) not in self.kept
        ]


def plan(seen: Seen) -> Plan:
    """What should exist now. Without a policy quotas stay as they are and Kueue takes back; what is
    deleted goes on being deleted."""
    leaving = frozenset(
        a.metadata.name
        for a in seen.allocations
        if a.metadata.deletionTimestamp and drained(a, seen.live)
    )
    staying = [a for a in seen.allocations if a.metadata.name not in leaving]
    if not seen.policy:
        return _without_policy(seen, staying, leaving)
    supply = supplies(seen.policy.spec.instanceTypes, seen.nodes, seen.daemons)
    owns = {a.metadata.name: owned(a.spec, supply) for a in staying}
    shares = shared_out(owns, supply)
    account_ = account(
        seen.allocations, shares, seen.live, shares_unallocated=seen.policy.spec.shareUnallocated
    )
    takes_back = bool(seen.leader) and seen.policy.spec.mode == "Enforce"
    taken = of_teams(staying, seen.live)
    served = [a for a in staying if a.metadata.name not in taken]
    targets = [
        *kueue_objects.shared(seen.policy, shares.unallocated, seen.live),
        *rbac.for_all(served),
    ]
    free_ = dict[str, Quota]()
    for a in staying:
        name = a.metadata.name
        borrowing = borrowing_limits(a.spec, owns[name], supply)
        lending = lending_limits(a, account_.lent[name])
        held = not a.spec.active or bool(a.metadata.deletionTimestamp)
        granted = shares.granted[name]
        free_[name] = free(a, granted, borrowing, account_)
        targets.append(
            kueue_objects.cluster_queue(
                a,
                seen.policy.spec,
                granted,
                borrowing,
                lending,
                cede_takes_back=takes_back,
                held=held,
            )
        )
        if name not in taken:
            targets += [*kueue_objects.in_namespace(a, _key(a, seen)), *rbac.in_namespace(a)]
    return Plan(
        targets=tuple(targets),
        kept=frozenset(taken),
        leaving=leaving,
        abandoned=_abandoned(staying, frozenset(taken), seen.live),
        problems={**of_content(staying, seen.policy), **taken},
        supply=supply,
        owns=owns,
        shares=shares,
        account=account_,
        free=free_,
        cede_takes_back=takes_back,
    )


def _key(a: ComputeAllocation, seen: Seen) -> str:
    """The entry of its control Secret: derived from the root key, or, while that is lost, the one
    it has."""
    if seen.root:
        return base64.b64encode(derive_key(seen.root, a.namespace)).decode()
    there = seen.live.get((SECRETS, (a.namespace, names.CONTROL_SECRET))) or {}
    return str((there.get("data") or {}).get(names.SECRET_KEY, ""))


NO_POLICY = (
    f"there is no ClusterPolicy named {names.POLICY_NAME}: apply one; "
    "until then all quotas stay as they are, and Kueue takes back by preempting"
)


def _without_policy(seen: Seen, staying: list[ComputeAllocation], leaving: frozenset[str]) -> Plan:
    queues = [(a, seen.live.get((CLUSTER_QUEUES, ("", a.metadata.name)))) for a in staying]
    kept_queues = [kueue_objects.without_policy(queue, a) for a, queue in queues if queue]
    kept = {a.metadata.name for a in staying} | ({SHARED} if seen.allocations else set())
    problems = {a.metadata.name: ("NoPolicy", NO_POLICY) for a in staying}
    abandoned = _abandoned(staying, frozenset(kept), seen.live)
    return Plan(tuple(kept_queues), frozenset(kept), leaving, abandoned, problems)


def drained(allocation: ComputeAllocation, live: Live) -> bool:
    """Whether nothing runs on its quota any more, and nothing new can: the queue is held, and Kueue
    says so."""
    queue = live.get((CLUSTER_QUEUES, ("", allocation.metadata.name)))
    if queue is None:
        return True
    status = queue.get("status", {})
    stopped = any(
        c["type"] == "Active" and c["status"] == "False" for c in status.get("conditions", [])
    )
    return (
        queue["spec"].get("stopPolicy") == "Hold"
        and stopped
        and not status.get("reservingWorkloads", 0)
    )


def _abandoned(
    staying: Iterable[ComputeAllocation], kept: frozenset[str], live: Live
) -> tuple[tuple[Key, str], ...]:
    """Namespaces that carry the label of an allocation which does not name them (any more)."""
    claimed = {(a.namespace, a.metadata.name) for a in staying}
    return tuple(
        (key, obj["metadata"].get("uid", ""))
        for (kind, key), obj in live.items()
        if kind == NAMESPACES
        and (owner := owner_of(obj))
        and owner not in kept
        and (key[1], owner) not in claimed
    )
