"""Which connections NetworkPolicies allow, by the rules of networking.k8s.io/v1."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from cede.api.objects import Json

OPERATORS = ("In", "Exists")
"""Of selectors, as far as they are modelled."""


class NotModelledError(Exception):
    """A policy has a part that this module would read as more or less than Kubernetes does."""


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod, or an address that is no pod's."""

    # empty if it is no pod
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    namespace_labels: dict[str, str] = field(default_factory=dict)
    # by default one from the range that many clusters give to pods
    address: str = "10.244.0.9"


def may_connect_to(
    policies: Iterable[Json], pod: Peer, peer: Peer, port: int, protocol: str = "TCP"
) -> bool:
    """Whether the egress rules that select the pod let it connect to the other end."""
    return _opens(policies, "egress", pod, peer, port, protocol)


def may_be_reached_by(
    policies: Iterable[Json], pod: Peer, peer: Peer, port: int, protocol: str = "TCP"
) -> bool:
    """Whether the ingress rules that select the pod let the other end connect to it. The node of
    the pod may in any case, with its kubelet and with ports that are forwarded."""
    return _opens(policies, "ingress", pod, peer, port, protocol)


def _opens(
    policies: Iterable[Json], direction: str, pod: Peer, peer: Peer, port: int, protocol: str
) -> bool:
    policies = list(policies)
    for policy in policies:
        _check(policy)
    selecting = [
        policy["spec"]
        for policy in policies
        if direction in _directions(policy["spec"])
        and policy["metadata"]["namespace"] == pod.namespace
        and _selects(policy["spec"]["podSelector"], pod.labels)
    ]
    is_closed = bool(selecting)
    return not is_closed or any(
        _has_port(rule, port, protocol) and _has_peer(rule, pod.namespace, peer)
        for spec in selecting
        for rule in spec.get(direction, ())
    )


def _directions(spec: Json) -> list[str]:
    """What the policy closes. Without `policyTypes` that is egress only if it has rules for it."""
    default = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    return [direction.lower() for direction in spec.get("policyTypes", default)]


def _has_port(rule: Json, port: int, protocol: str) -> bool:
    entries = rule.get("ports", ())
    return not entries or any(
        entry.get("port", port) == port and entry.get("protocol", "TCP") == protocol
        for entry in entries
    )


def _has_peer(rule: Json, namespace: str, peer: Peer) -> bool:
    others = rule.get("from") or rule.get("to")
    return not others or any(_is_one_of(other, namespace, peer) for other in others)


def _is_one_of(other: Json, namespace: str, peer: Peer) -> bool:
    if "ipBlock" in other:
        return ip_address(peer.address) in ip_network(other["ipBlock"]["cidr"])
    if not peer.namespace:
        return False
    if "namespaceSelector" in other:
        labels = {"kubernetes.io/metadata.name": peer.namespace, **peer.namespace_labels}
        is_there = _selects(other["namespaceSelector"], labels)
    else:
        is_there = peer.namespace == namespace
    return is_there and _selects(other.get("podSelector", {}), peer.labels)


def _selects(selector: Json, labels: dict[str, str]) -> bool:
    for expression in selector.get("matchExpressions", ()):
        value = labels.get(expression["key"])
        if value is None:
            return False
        if expression["operator"] == "In" and value not in expression["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


# --- what is not modelled -------------------------------------------------------------------------
def _check(policy: Json) -> None:
    """Raises NotModelledError for a part that is not modelled, whomever it is about."""
    spec = policy["spec"]
    _has_only(spec, "podSelector", "policyTypes", "ingress", "egress")
    _check_selector(spec["podSelector"])
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction, ()):
            _has_only(rule, side, "ports")
            for entry in rule.get("ports", ()):
                _check_port(entry)
            for other in rule.get(side, ()):
                _check_peer(other)


def _check_port(entry: Json) -> None:
    _has_only(entry, "port", "protocol")
    if isinstance(entry.get("port"), str):
        raise NotModelledError(f"the named port {entry['port']}: write its number")


def _check_peer(other: Json) -> None:
    if "ipBlock" in other:
        _has_only(other, "ipBlock")
        _has_only(other["ipBlock"], "cidr")
        return
    _has_only(other, "podSelector", "namespaceSelector")
    if not other:
        raise NotModelledError("a peer that is empty: the API server refuses it")
    for selector in other.values():
        _check_selector(selector)


def _check_selector(selector: Json) -> None:
    _has_only(selector, "matchLabels", "matchExpressions")
    for expression in selector.get("matchExpressions", ()):
        if expression["operator"] not in OPERATORS:
            raise NotModelledError(f"the operator {expression['operator']}, only {OPERATORS} are")


def _has_only(part: Json, *modelled: str) -> None:
    if unknown := part.keys() - set(modelled):
        raise NotModelledError(f"{sorted(unknown)} of {part}, only {modelled} are")
