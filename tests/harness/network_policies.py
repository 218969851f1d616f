"""Which connections NetworkPolicies allow, by the rules of networking.k8s.io/v1."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from cede.api.objects import Json


@dataclass(frozen=True)
class Peer:
    """The other end: a pod, or an address that is no pod's."""

    # empty if it is no pod
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    namespace_labels: dict[str, str] = field(default_factory=dict)
    address: str = ""


def selects(selector: Json, labels: dict[str, str]) -> bool:
    for expression in selector.get("matchExpressions", ()):
        value = labels.get(expression["key"])
        if value is None:
            return False
        if expression["operator"] == "In" and value not in expression["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def opens(rule: Json, namespace: str, peer: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether a rule of a policy in `namespace` allows the connection."""
    ports = [(entry["port"], entry["protocol"]) for entry in rule.get("ports", ())]
    if ports and (port, protocol) not in ports:
        return False
    others = rule.get("from") or rule.get("to")
    return not others or any(_is_one_of(other, namespace, peer) for other in others)


def _is_one_of(other: Json, namespace: str, peer: Peer) -> bool:
    if "ipBlock" in other:
        return bool(peer.address) and ip_address(peer.address) in ip_network(
            other["ipBlock"]["cidr"]
        )
    if not peer.namespace:
        return False
    if "namespaceSelector" in other:
        labels = {"kubernetes.io/metadata.name": peer.namespace, **peer.namespace_labels}
        is_there = selects(other["namespaceSelector"], labels)
    else:
        is_there = peer.namespace == namespace
    return is_there and selects(other.get("podSelector", {}), peer.labels)


def may_connect_to(
    policies: Iterable[Json], pod: Peer, peer: Peer, port: int, protocol: str = "TCP"
) -> bool:
    """Whether the policies of the pod's namespace let it connect to the other end."""
    rules = [
        policy["spec"].get("egress", [])
        for policy in policies
        if "Egress" in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], pod.labels)
    ]
    is_closed = bool(rules)
    return not is_closed or any(
        opens(rule, pod.namespace, peer, port, protocol) for part in rules for rule in part
    )
