"""The page as it is deployed: what it may do, and who may connect."""

from functools import partial

from cede.api import names
from cede.api.objects import Kind
from cede.api.team_days import PORT_NAME
from cede.dashboard.__main__ import LEDGER, parse_flags
from cede.dashboard.people.person import OF_JOBS, PROGRESS, SHARED
from tests.harness.component_manifests import manifests

NAME = "cede-dashboard"


documents = partial(manifests, "dashboard")


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
    assert rights("ClusterRole") == read(*in_cluster, PROGRESS) | {
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
    [role] = documents("ClusterRole")
    [notes] = [rule for rule in role["rules"] if PROGRESS.plural in rule["resources"]]
    assert notes["resourceNames"] == [names.PROGRESS]
    assert rights("Role") == read(*(kind for kind in SHARED if kind.plural == "leases"))


def test_sessions_are_in_the_memory_of_one_process() -> None:
    [deployment] = documents("Deployment")
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
    [service] = manifests("ledger", "Service")
    [port] = service["spec"]["ports"]
    assert (service["metadata"]["name"], port["name"]) == (names.LEDGER, PORT_NAME)
    assert LEDGER.endswith(f"{names.LEDGER}.cede-system:{port['port']}")
    [policy] = manifests("ledger", "NetworkPolicy")
    peers = [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]
    assert {"podSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}}} in peers
