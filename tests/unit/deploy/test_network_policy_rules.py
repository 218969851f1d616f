"""How tests read a NetworkPolicy: as Kubernetes does, or not at all."""

import pytest

from cede.api.objects import Json
from tests.harness.network_policies import (
    NotModelledError,
    Peer,
    may_be_reached_by,
    may_connect_to,
)

SERVER = Peer("shop", {"app": "server"})
CLIENT = Peer("shop", {"app": "client"})
PORT = 8080


def policy(spec: Json, namespace: str = "shop") -> Json:
    return {"metadata": {"name": "it", "namespace": namespace}, "spec": {"podSelector": {}} | spec}


def ingress(*rules: Json, **spec: object) -> Json:
    return policy({"ingress": list(rules)} | spec)


@pytest.mark.parametrize(
    ("made", "is_open"),
    [
        pytest.param(policy({}), False, id="without rules"),
        pytest.param(policy({}, "elsewhere"), True, id="in another namespace"),
        pytest.param(
            policy({"podSelector": {"matchLabels": {"app": "other"}}}), True, id="for another pod"
        ),
        pytest.param(policy({"policyTypes": ["Egress"]}), True, id="of the other direction"),
        pytest.param(ingress({}), True, id="an empty rule"),
        pytest.param(ingress({"from": [], "ports": []}), True, id="empty lists"),
        pytest.param(ingress({"ports": [{"port": PORT}]}), True, id="the port, by default of TCP"),
        pytest.param(ingress({"ports": [{"protocol": "TCP"}]}), True, id="all ports of a protocol"),
        pytest.param(ingress({"ports": [{"protocol": "UDP"}]}), False, id="of another protocol"),
        pytest.param(ingress({"ports": [{"port": 9}]}), False, id="another port"),
        pytest.param(
            ingress({"from": [{"podSelector": {}}], "ports": [{"port": 9}]}),
            False,
            id="the peer, at another port",
        ),
        pytest.param(ingress({"from": [{"podSelector": {}}]}), True, id="a pod of the namespace"),
        pytest.param(
            ingress({"from": [{"podSelector": {"matchLabels": {"app": "server"}}}]}),
            False,
            id="another pod of the namespace",
        ),
        pytest.param(
            ingress({"from": [{"namespaceSelector": {}}]}), True, id="a pod of any namespace"
        ),
        pytest.param(
            ingress({"from": [{"ipBlock": {"cidr": "10.244.0.0/16"}}]}),
            True,
            id="the address of a pod",
        ),
        pytest.param(
            ingress({"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}), False, id="other addresses"
        ),
    ],
)
def test_who_reaches_a_pod(made: Json, is_open: bool) -> None:
    assert may_be_reached_by([made], SERVER, CLIENT, PORT) is is_open


def test_one_policy_that_allows_it_is_enough() -> None:
    assert may_be_reached_by([], SERVER, CLIENT, PORT)
    assert may_be_reached_by([policy({}), ingress({})], SERVER, CLIENT, PORT)


def test_without_types_egress_is_closed_by_its_rules_only() -> None:
    other_port = policy({"egress": [{"ports": [{"port": 9}]}]})
    assert may_connect_to([policy({})], CLIENT, SERVER, PORT)
    assert not may_connect_to([other_port], CLIENT, SERVER, PORT)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        pytest.param(
            ingress(podSelector={"matchExpressions": [{"key": "app", "operator": "NotIn"}]}),
            "NotIn",
            id="an operator",
        ),
        pytest.param(
            ingress({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}),
            "except",
            id="an exception",
        ),
        pytest.param(ingress({"ports": [{"port": 1, "endPort": 9}]}), "endPort", id="a range"),
        pytest.param(ingress({"ports": [{"port": "https"}]}), "https", id="a named port"),
        pytest.param(ingress({"from": [{}]}), "empty", id="a peer that is nobody"),
        pytest.param(ingress({"to": [{"podSelector": {}}]}), "to", id="a field elsewhere"),
        pytest.param(ingress(tier=1), "tier", id="a field of a later version"),
    ],
)
def test_what_is_not_modelled_is_no_answer(made: Json, named: str) -> None:
    """Also where another policy allows the connection, or the part is about somebody else."""
    for policies in ([made], [policy({"ingress": [{}]}), made]):
        with pytest.raises(NotModelledError, match=named):
            may_be_reached_by(policies, SERVER, CLIENT, PORT)
