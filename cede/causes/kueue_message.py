"""PURE. What Kueue's message of condition QuotaReserved says, as facts.

Kueue has one reason, Pending, for all of them, unless its feature gate
UnadmittedWorkloadsObservability is on, which is off by default. The messages are those of Kueue
0.19.2: pkg/scheduler/flavorassigner/flavorassigner.go, pkg/scheduler/flavorassigner/
flavor_assigner_attempts.go, pkg/scheduler/flavorassigner/tas_flavorassigner.go,
pkg/scheduler/scheduler.go and pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

import re
from dataclasses import dataclass

from cede.api.resources import amount

_LACK = re.compile(r"insufficient unused quota for (\S+) in flavor ([^\s,]+), (\S+) more needed")
_EXCESS = re.compile(
    r"insufficient quota for (\S+) in flavor ([^\s,]+), previously considered podsets requests "
    r"\((\S+)\) \+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_ABSENT = re.compile(
    r"resource (\S+) unavailable in ClusterQueue|flavor \S+ does not provide resource ([^\s,;]+)"
)
_UNMATCHED = re.compile(
    r"untolerated taint .+? in flavor [^\s,;]+"
    r"|flavor \S+ doesn't match node affinity"
    r'|Flavor "[^"]*" (?:does not support TopologyAwareScheduling'
    r"|does not contain the requested level|supports only TopologyAwareScheduling)"
)
_TOPOLOGY = re.compile(
    r"topology \"[^\"]*\" (?:doesn't allow to fit|allows to fit only).*|no topology domains at .*"
)
_EVICTING = re.compile(
    r"Pending the preemption of (\d+) workload|Pending the migration of (\d+) workload"
)
_OVERLAPPING = "overlapping preemption targets"
_NAMESPACE = "workload namespace doesn't match ClusterQueue selector"
_INVALID = ("resources validation failed", "resources didn't satisfy LimitRange constraints")
_PODS_READY = "waiting for all admitted workloads to be in PodsReady condition"
_CHECKS = "The workload has failed admission checks"


@dataclass(frozen=True)
class Lack:
    """So much more of a resource would have to be unused in a flavor."""

    resource: str
    flavor: str
    missing: int


@dataclass(frozen=True)
class Excess:
    """More than the queue may ever use of the flavor, with all that it may borrow."""

    resource: str
    flavor: str
    asked: int
    maximum: int


@dataclass(frozen=True)
class Verdict:
    """All that a message says. A message may have a reason for each flavor and pod set."""

    lacks: tuple[Lack, ...] = ()
    excesses: tuple[Excess, ...] = ()
    # resources of which the queue has no quota
    absent: tuple[str, ...] = ()
    # Kueue's words for each flavor that the pods do not match
    unmatched: tuple[str, ...] = ()
    # Kueue's words about nodes; empty if it has none
    topology: str = ""
    # the workloads that Kueue has stopped for this one, and that have not ended
    evicting: int = 0
    wrong_namespace: bool = False
    invalid: bool = False
    blocked_by_pods: bool = False
    failed_checks: bool = False


def parse(message: str) -> Verdict:
    """Amounts that are no quantities are left out."""
    topology = _TOPOLOGY.search(message)
    return Verdict(
        lacks=_distinct_lacks(message),
        excesses=_excesses(message),
        absent=tuple(dict.fromkeys(a or b for a, b in _ABSENT.findall(message))),
        unmatched=tuple(dict.fromkeys(_UNMATCHED.findall(message))),
        topology=topology[0] if topology else "",
        evicting=_evicting(message),
        wrong_namespace=_NAMESPACE in message,
        invalid=any(words in message for words in _INVALID),
        blocked_by_pods=_PODS_READY in message,
        failed_checks=_CHECKS in message,
    )


def _distinct_lacks(message: str) -> tuple[Lack, ...]:
    """The largest for each flavor and resource: pod sets are tried one after the other."""
    largest: dict[tuple[str, str], Lack] = {}
    for resource, flavor, text in _LACK.findall(message):
        missing = _amount(resource, text)
        before = largest.get((resource, flavor))
        if missing is not None and (before is None or before.missing < missing):
            largest[resource, flavor] = Lack(resource, flavor, missing)
    return tuple(sorted(largest.values(), key=lambda lack: _order(lack.resource)))


def _excesses(message: str) -> tuple[Excess, ...]:
    result = []
    for resource, flavor, *texts in _EXCESS.findall(message):
        before, more, maximum = (_amount(resource, text) for text in texts)
        if before is not None and more is not None and maximum is not None:
            result.append(Excess(resource, flavor, before + more, maximum))
    return tuple(sorted(result, key=lambda excess: _order(excess.resource)))


def _order(resource: str) -> tuple[bool, str]:
    """Accelerators come first: people think of them."""
    return "/" not in resource, resource


def _evicting(message: str) -> int:
    match = _EVICTING.search(message)
    if match:
        return int(match[1] or match[2])
    return 1 if _OVERLAPPING in message else 0


def _amount(resource: str, text: str) -> int | None:
    try:
        return amount(resource, text)
    except ValueError:
        return None
