"""Who may connect to Cede's own pods, and what they may connect to, so that one that somebody took
over reaches little else."""

from functools import cache

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from elastic_runtime import contract
from tests.harness.component_manifests import manifests
from tests.harness.network_policies import Peer, may_be_reached_by, may_connect_to
from tests.paths import TREE

WEBHOOK, SCHEDULER, QUOTA_CONTROLLER = "cede-webhook", "cede-scheduler", "cede-quota-controller"
DASHBOARD = "cede-dashboard"
COMPONENTS = {WEBHOOK, SCHEDULER, QUOTA_CONTROLLER, DASHBOARD, names.LEDGER}

TEAM = {names.TEAM: "vision"}
ELASTIC = {names.ELASTIC_POD: "true"}
RUNTIME = Peer("vision", ELASTIC, TEAM)
DNS = Peer("kube-system", {"k8s-app": "kube-dns"})
DNS_OF_A_NODE = Peer(address="169.254.20.10")
OTHER_MACHINE = Peer(address="203.0.113.7")


def component(name: str) -> Peer:
    return Peer(names.SYSTEM_NAMESPACE, {"app.kubernetes.io/name": name})


@cache
def policies() -> list[Json]:
    """All of an installation with its optional components."""
    text = (TREE / "deploy/overlays/production/network-policies.yaml").read_text()
    own = list(yaml.safe_load_all(text))
    parts = [manifests(part, "NetworkPolicy") for part in ("dashboard", "ledger")]
    # as their kustomizations say
    namespace = {"namespace": names.SYSTEM_NAMESPACE}
    return own + [
        policy | {"metadata": policy["metadata"] | namespace} for part in parts for policy in part
    ]


@cache
def ports() -> dict[str, set[int]]:
    """What each component listens on."""
    files = (TREE / "deploy/base").glob("*/deployment.yaml")
    deployments = [yaml.safe_load(file.read_text()) for file in files]
    for part in ("dashboard", "ledger"):
        deployments += manifests(part, "Deployment")
    listening: dict[str, set[int]] = {}
    for deployment in deployments:
        template = deployment["spec"]["template"]
        [container] = template["spec"]["containers"]
        name = template["metadata"]["labels"]["app.kubernetes.io/name"]
        listening[name] = {port["containerPort"] for port in container["ports"]}
    return listening


def test_every_component_is_known_here() -> None:
    assert ports().keys() == COMPONENTS


@pytest.mark.parametrize(
    ("peer", "port", "protocol", "who"),
    [
        pytest.param(OTHER_MACHINE, 443, "TCP", COMPONENTS, id="an API server in a cloud"),
        pytest.param(OTHER_MACHINE, 6443, "TCP", COMPONENTS, id="an API server on a node"),
        pytest.param(RUNTIME, contract.PORT, "TCP", {SCHEDULER}, id="the runtime of a job"),
        pytest.param(RUNTIME, 41234, "TCP", set(), id="another port of that pod"),
        pytest.param(
            Peer("vision", {}, TEAM), contract.PORT, "TCP", set(), id="another pod of the team"
        ),
        pytest.param(
            Peer("default", ELASTIC), contract.PORT, "TCP", set(), id="a pod outside of the teams"
        ),
        pytest.param(component(names.LEDGER), 8080, "TCP", {DASHBOARD}, id="the ledger"),
        pytest.param(
            Peer("vision", {"app.kubernetes.io/name": names.LEDGER}, TEAM),
            *(8080, "TCP", set()),
            id="a pod of a team that is named as the ledger",
        ),
        pytest.param(component(WEBHOOK), 8443, "TCP", set(), id="another component"),
        pytest.param(DNS, 53, "UDP", {DASHBOARD}, id="DNS"),
        pytest.param(DNS, 53, "TCP", {DASHBOARD}, id="DNS with long answers"),
        pytest.param(DNS_OF_A_NODE, 53, "UDP", {DASHBOARD}, id="DNS of a node"),
        pytest.param(OTHER_MACHINE, 53, "UDP", set(), id="the DNS of somebody else"),
        pytest.param(
            Peer(address="169.254.169.254"), 80, "TCP", set(), id="the credentials of a cloud"
        ),
        pytest.param(OTHER_MACHINE, 80, "TCP", set(), id="any other address"),
        pytest.param(OTHER_MACHINE, contract.PORT, "TCP", set(), id="a runtime that is no pod"),
    ],
)
def test_who_of_cede_connects_to(peer: Peer, port: int, protocol: str, who: set[str]) -> None:
    pods = [component(name) for name in COMPONENTS]
    connecting = {
        pod.labels["app.kubernetes.io/name"]
        for pod in pods
        if may_connect_to(policies(), pod, peer, port, protocol)
    }
    assert connecting == who


MONITORING = Peer("monitoring")
CLIENTS = {
    **{name: component(name) for name in COMPONENTS},
    "monitoring": MONITORING,
    "a pod of a team": Peer("vision", {}, TEAM),
    "the runtime of a job": RUNTIME,
    "a pod of a team that is named as the page": Peer(
        "vision", {"app.kubernetes.io/name": DASHBOARD}, TEAM
    ),
    "another machine": OTHER_MACHINE,
}
READERS = {"monitoring"}
OPEN: dict[tuple[str, int], set[str]] = {
    # no pod selector matches an API server
    (WEBHOOK, 8443): set(CLIENTS),
    (WEBHOOK, 8080): READERS,
    (SCHEDULER, 8080): READERS,
    (QUOTA_CONTROLLER, 8080): READERS,
    (names.LEDGER, 8080): READERS | {DASHBOARD},
    (DASHBOARD, 8080): READERS,
    # a forwarded port comes from the node
    (DASHBOARD, 8443): set(),
}


def test_every_port_of_a_component_is_known_here() -> None:
    assert {(name, port) for name in COMPONENTS for port in ports()[name]} == OPEN.keys()


@pytest.mark.parametrize("name", sorted(COMPONENTS))
@pytest.mark.parametrize("port", [8080, 8443, 9999])
def test_who_connects_to_cede(name: str, port: int) -> None:
    connecting = {
        client
        for client, peer in CLIENTS.items()
        if may_be_reached_by(policies(), component(name), peer, port)
    }
    assert connecting == OPEN.get((name, port), set())
