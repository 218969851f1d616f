"""The page as it is deployed: what it may do, and who may connect."""

from typing import Any

import yaml

from cede.api.objects import Json, Kind
from cede.api.team_days import PORT_NAME, SERVICE
from cede.dashboard.__main__ import LEDGER, parse_flags
from cede.dashboard.people.person import OF_JOBS, SHARED
from tests.paths import TREE

COMPONENTS = TREE / "deploy/components"
NAME = "cede-dashboard"


def documents(kind: str, component: str = "dashboard") -> list[Json]:
    texts = [path.read_text() for path in (COMPONENTS / component).glob("*.yaml")]
    loaded: list[Any] = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in loaded if document["kind"] == kind]


def rights(kind: str) -> set[tuple[str, str, str]]:
    """(group, resource, verb)."""
    return {
        (group, resource, verb)
        for role in documents(kind)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def read(*kinds: Kind) -> set[tuple[str, str, str]]:
    return {(kind.group, kind.plural, verb) for kind in kinds for verb in ("list", "watch")}


def test_it_reads_what_the_page_shows_and_asks_who_somebody_is_and_may_do_nothing_else() -> None:
    in_cluster = [kind for kind in (*SHARED, *OF_JOBS) if kind.plural != "leases"]
    assert rights("ClusterRole") == read(*in_cluster) | {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    assert rights("Role") == read(*(kind for kind in SHARED if kind.plural == "leases"))


def test_it_runs_without_rights_on_its_node() -> None:
    [deployment] = documents("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    # sessions are in the memory of one process
    assert deployment["spec"]["replicas"] == 1


def test_its_arguments_and_ports_are_those_of_the_program() -> None:
    [deployment] = documents("Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    flags = parse_flags(container["args"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"page": flags.port, "metrics": flags.health_port}
    [mount] = container["volumeMounts"]
    assert mount["mountPath"] == flags.tls
    assert flags.address == f"http://localhost:{flags.port}"


def test_its_pods_are_those_that_policy_and_service_select() -> None:
    labels = {"app.kubernetes.io/name": NAME}
    [policy], [service], [deployment] = map(documents, ("NetworkPolicy", "Service", "Deployment"))
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    assert service["spec"]["selector"] == labels
    assert deployment["spec"]["template"]["metadata"]["labels"].items() >= labels.items()


def test_the_ledger_answers_where_the_page_asks_and_lets_it_in() -> None:
    [service] = documents("Service", "ledger")
    [port] = service["spec"]["ports"]
    assert (service["metadata"]["name"], port["name"]) == (SERVICE, PORT_NAME)
    assert LEDGER.endswith(f"{SERVICE}.cede-system:{port['port']}")
    [policy] = documents("NetworkPolicy", "ledger")
    peers = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
    assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}}} in peers
