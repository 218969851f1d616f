"""PURE. The facts of `cede status`: policy, leader, nodes, teams, Cessions, and problems."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cede.api import durations, names
from cede.api.allocation import ComputeAllocation
from cede.api.kueue import Lease
from cede.api.objects import Json, is_true, unix
from cede.api.policy import ClusterPolicy, TypeStatus
from cede.api.resources import describe_amounts, parse
from cede.causes.cessions import CessionSummary, summarize
from cede.causes.snapshot import COMPONENT_BY_LEASE, Snapshot, is_current, leader
from cede.report.ages import without_age

MAX_ENDED_CESSIONS = 5


@dataclass(frozen=True)
class Team:
    name: str
    namespace: str
    owns: str
    uses: str
    lends: str
    borrows: str
    ready: bool


@dataclass(frozen=True)
class Status:
    # empty: there is no policy, or it cannot be read
    mode: str
    # Cede or Kueue; empty: not known yet
    preemption: str
    leader: str
    # a sentence for each instance type
    instance_types: tuple[str, ...]
    teams: tuple[Team, ...]
    open_cessions: tuple[CessionSummary, ...]
    ended_cessions: tuple[CessionSummary, ...]
    # each problem with its cure
    attention: tuple[str, ...]


def status(snapshot: Snapshot, now: float) -> Status:
    """All facts of `cede status`; the newest Cessions come first."""
    policy = snapshot.policy
    types = policy.status.instanceTypes if policy else []
    teams = sorted(snapshot.allocations, key=lambda allocation: allocation.metadata.name)
    newest = sorted(snapshot.cessions, key=lambda item: item.metadata.created, reverse=True)
    ended = [cession for cession in newest if not cession.open]
    return Status(
        mode=policy.spec.mode if policy else "",
        preemption=policy.status.preemption if policy else "",
        leader=leader(snapshot, now),
        instance_types=tuple(_instance_type(type_) for type_ in types),
        teams=tuple(_team(allocation) for allocation in teams),
        open_cessions=tuple(summarize(cession, now) for cession in newest if cession.open),
        ended_cessions=tuple(summarize(cession, now) for cession in ended[:MAX_ENDED_CESSIONS]),
        attention=tuple(_attention(snapshot, now)),
    )


def without_ages(facts: Status) -> Status:
    """The facts without what changes with every second."""
    return replace(
        facts,
        open_cessions=tuple(replace(cession, age_s=0) for cession in facts.open_cessions),
        ended_cessions=tuple(replace(cession, age_s=0) for cession in facts.ended_cessions),
        attention=tuple(map(without_age, facts.attention)),
    )


def _instance_type(type_: TypeStatus) -> str:
    return (
        f"{type_.name}: {type_.healthyNodes} of {type_.nodes} nodes are healthy and have "
        f"{describe_amounts(parse(type_.healthy))}; "
        f"unallocated: {describe_amounts(parse(type_.unallocated))}"
    )


def _team(allocation: ComputeAllocation) -> Team:
    status = allocation.status
    return Team(
        name=allocation.team,
        namespace=status.namespace or allocation.namespace,
        owns=status.owns,
        uses=status.used,
        lends=status.lent,
        borrows=status.borrowed,
        ready=is_true(status.conditions, names.READY),
    )


# --- attention ------------------------------------------------------------------------------------
def _attention(snapshot: Snapshot, now: float) -> Iterable[str]:
    yield from snapshot.unreadable
    if snapshot.policy is None and not snapshot.unreadable:
        yield (
            f"there is no ClusterPolicy: apply one named {names.POLICY_NAME} that lists the "
            f"cluster's instance types"
        )
    for name, lease in snapshot.leases.items():
        yield from _lease_problem(name, lease, now)
    if snapshot.policy:
        yield from _policy_problems(snapshot.policy)
    for allocation in snapshot.allocations:
        yield from _allocation_problems(allocation)
    for queue in snapshot.queues:
        if queue.spec.stopPolicy != "None":
            yield (
                f"ClusterQueue {queue.metadata.name} is on hold ({queue.spec.stopPolicy}), and "
                f"Kueue admits no new work in it: see the status of its ComputeAllocation"
            )


def _lease_problem(name: str, lease: Lease | None, now: float) -> Iterable[str]:
    if lease is not None and is_current(lease, now):
        return
    component = COMPONENT_BY_LEASE.get(name, name)
    since = ""
    if lease is not None and lease.spec.renewTime:
        since = f" for {durations.describe(now - unix(lease.spec.renewTime))}"
    yield (
        f"{component} has had no leader{since}: check Deployment {component} in namespace "
        f"{names.SYSTEM_NAMESPACE}"
    )


def _policy_problems(policy: ClusterPolicy) -> Iterable[str]:
    yield from _conditions_not_true(
        f"ClusterPolicy {policy.metadata.name}", policy.status.conditions
    )
    for type_ in policy.status.instanceTypes:
        if type_.message:
            yield f"instance type {type_.name}: {type_.message}"


def _allocation_problems(allocation: ComputeAllocation) -> Iterable[str]:
    name = allocation.metadata.name
    if allocation.status.observedGeneration < allocation.metadata.generation:
        yield (
            f"ComputeAllocation {name} has changes that are not in effect yet: check Deployment "
            f"{names.QUOTA_CONTROLLER} in namespace {names.SYSTEM_NAMESPACE}"
        )
    yield from _conditions_not_true(f"ComputeAllocation {name}", allocation.status.conditions)


def _conditions_not_true(subject: str, conditions: Iterable[Json]) -> Iterable[str]:
    for entry in conditions:
        if entry["status"] != "True":
            state = f"{entry['type']} is {entry['status']} ({entry['reason']})"
            yield f"{subject}: {state}: {entry['message']}"
