"""`cede doctor` against an API server over real HTTP."""

import base64
import json
import time

import pytest
from aiohttp import web

from cede.api import names
from cede.api.cession import Cession
from cede.api.crd_definition import definition
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    POLICIES,
    Json,
)
from cede.api.policy import ClusterPolicy
from cede.commands.doctor import CUSTOM_RESOURCES, NEEDED_KINDS, ca_end
from cede.kueue_settings.config import CONFIG_KEY, CONFIG_MAP, DEPLOYMENT
from cede.report.installation_facts import ADDITIONS, COMPONENTS
from quota_controller.certificates.issue import issue_ca
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer
from tests.unit.cede_cli.conftest import Run


def answers(body: Json) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body)

    return answer


def tell_about_itself(server: ApiServer, *absent: str) -> None:
    """Its version, and its kinds without those of the `absent` groups."""
    server.script("GET", "/version", answers({"gitVersion": "v1.36.3"}))
    for kind in NEEDED_KINDS:
        path = f"/apis/{kind.api_version}"
        if kind.group in absent:
            server.script("GET", path, refuses(404, "NotFound"))
            continue
        of_group = [{"kind": other.kind} for other in NEEDED_KINDS if other.group == kind.group]
        server.script("GET", path, answers({"resources": of_group}))


def put_kueue(server: ApiServer) -> None:
    containers = [{"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.19.2"}]
    spec = {"template": {"spec": {"containers": containers}}}
    metadata = {"name": DEPLOYMENT[1], "namespace": DEPLOYMENT[0]}
    server.put(DEPLOYMENTS, {"metadata": metadata, "spec": spec})


def put_settings(server: ApiServer, text: str) -> None:
    metadata = {"name": CONFIG_MAP[1], "namespace": CONFIG_MAP[0]}
    server.put(CONFIG_MAPS, {"metadata": metadata, "data": {CONFIG_KEY: text}})


def put_components(server: ApiServer, *additions: str) -> None:
    for name in (*COMPONENTS, *additions):
        metadata = {"name": name, "namespace": names.SYSTEM_NAMESPACE}
        numbers = {"spec": {"replicas": 2}, "status": {"availableReplicas": 2}}
        server.put(DEPLOYMENTS, {"metadata": metadata} | numbers)


def bundle(issued: float) -> str:
    return base64.b64encode(issue_ca(issued).certificate.encode()).decode()


def put_webhook(server: ApiServer) -> None:
    webhooks = [{"name": "jobs.cede.dev", "clientConfig": {"caBundle": bundle(time.time())}}]
    server.put(MUTATING_WEBHOOKS, {"metadata": {"name": names.WEBHOOK}, "webhooks": webhooks})


async def findings(cede: Run) -> list[Json]:
    _, text, _ = await cede("doctor", "-o", "json")
    return list(json.loads(text))


async def test_an_installation_is_checked_and_nothing_is_written(
    server: ApiServer, cede: Run
) -> None:
    tell_about_itself(server)
    put_kueue(server)
    put_components(server)
    put_webhook(server)
    code, text, _ = await cede("doctor", "-o", "json")
    results = {finding["subject"]: finding for finding in json.loads(text)}
    for subject in ("Kubernetes", "Kueue", "CRDs", *COMPONENTS, "webhook certificate", "guards"):
        assert results[subject]["state"] == "ok", results[subject]
    # this cluster has no lease of the quota_controller
    assert results["lease cede-quota-controller"]["state"] == "WRONG"
    assert code == 1
    assert not {*ADDITIONS, "lease cede-ledger"} & results.keys()
    assert not server.writes()


async def test_it_runs_before_the_installation(server: ApiServer, cede: Run) -> None:
    tell_about_itself(server, "cede.dev")
    put_kueue(server)
    code, text, _ = await cede("doctor")
    assert code == 0
    assert text.splitlines()[:3] == [
        "STATE    CHECK             RESULT",
        "ok       Kubernetes        v1.36.3",
        "ok       Kueue             0.19.2",
    ]
    assert "it is not installed: `kubectl apply --server-side" in text


async def test_before_the_installation_kueues_settings_are_checked_and_have_their_cure(
    server: ApiServer, cede: Run
) -> None:
    tell_about_itself(server, "cede.dev")
    put_kueue(server)
    put_settings(server, "integrations: {frameworks: [batch/job]}\n")
    code, text, _ = await cede("doctor", "-o", "json")
    results = {finding["subject"]: finding for finding in json.loads(text)}
    settings = results["Kueue's settings"]
    assert (code, settings["state"]) == (1, "WRONG")
    for cure in ("set fairSharing in ConfigMap kueue-manager-config", "pod is not in integrations"):
        assert cure in settings["message"]


async def test_settings_of_kueue_that_the_user_may_not_read_are_unknown(
    server: ApiServer, cede: Run
) -> None:
    tell_about_itself(server, "cede.dev")
    put_kueue(server)
    server.script("GET", CONFIG_MAPS.path(CONFIG_MAP), refuses(403, "Forbidden"))
    code, text, _ = await cede("doctor", "-o", "json")
    results = {finding["subject"]: finding for finding in json.loads(text)}
    settings = results["Kueue's settings"]
    assert (code, settings["state"]) == (0, "unknown")
    assert "you may not read ConfigMap kueue-manager-config" in settings["message"]


async def test_the_ledger_and_the_page_are_checked_where_they_are_deployed(
    server: ApiServer, cede: Run
) -> None:
    tell_about_itself(server)
    put_kueue(server)
    put_components(server, *ADDITIONS)
    _, text, _ = await cede("doctor", "-o", "json")
    states = {finding["subject"]: finding["state"] for finding in json.loads(text)}
    assert [states[name] for name in ADDITIONS] == ["ok", "ok"]
    # no ledger has ever led here
    assert states["lease cede-ledger"] == "WRONG"


async def test_a_crd_of_an_older_version_is_wrong(server: ApiServer, cede: Run) -> None:
    tell_about_itself(server)
    put_kueue(server)
    for model in (ClusterPolicy, Cession):
        server.put(CUSTOM_RESOURCES, definition(model))
    states = {item["subject"]: item["state"] for item in await findings(cede)}
    assert states["CRDs"] == "ok"
    old = definition(Cession)
    [version] = old["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    del status["targets"]["items"]["properties"]["completed"]
    server.put(CUSTOM_RESOURCES, old)
    tell_about_itself(server)
    [result] = [item for item in await findings(cede) if item["subject"] == "CRDs"]
    assert result["state"] == "WRONG"
    assert "of Cession the API server drops status.targets.completed: `" in result["message"]


async def test_a_team_in_a_namespace_of_controllers_is_wrong(server: ApiServer, cede: Run) -> None:
    tell_about_itself(server)
    put_kueue(server)
    for name, labels in (("vision", {names.TEAM: "v"}), ("kubeflow", {names.TEAM: "k"}), ("x", {})):
        server.put(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    results = await findings(cede)
    [result] = [item for item in results if item["subject"] == "namespaces of teams"]
    assert result["state"] == "WRONG"
    assert result["message"].startswith("kubeflow: ")


async def test_a_second_installation_is_wrong(server: ApiServer, cede: Run) -> None:
    labels = {"app.kubernetes.io/part-of": "cede"}
    tell_about_itself(server)
    put_kueue(server)
    for namespace in (names.SYSTEM_NAMESPACE, "other"):
        metadata = {"name": names.SCHEDULER, "namespace": namespace, "labels": labels}
        server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {"replicas": 1}})
    subject = {"kind": "ServiceAccount", "name": names.SCHEDULER, "namespace": "other"}
    binding = {"name": names.SCHEDULER, "labels": labels}
    server.put(CLUSTER_ROLE_BINDINGS, {"metadata": binding, "subjects": [subject]})
    service = {"name": names.WEBHOOK, "namespace": "other"}
    webhooks = [{"name": "jobs.cede.dev", "clientConfig": {"service": service}}]
    configuration = {"metadata": {"name": names.WEBHOOK, "labels": labels}, "webhooks": webhooks}
    server.put(MUTATING_WEBHOOKS, configuration)
    [result] = [item for item in await findings(cede) if item["subject"] == "place of Cede"]
    assert result["state"] == "WRONG"
    assert (
        ": Deployment cede-scheduler in other, account cede-scheduler of ClusterRoleBinding "
        "cede-scheduler in other, Service of the MutatingWebhookConfiguration in other: "
    ) in result["message"]


async def test_a_cluster_without_kueue_is_wrong(server: ApiServer, cede: Run) -> None:
    tell_about_itself(server, "cede.dev", "kueue.x-k8s.io")
    code, text, _ = await cede("doctor")
    assert code == 1
    assert "install Kueue 0.19.2 or newer" in text


async def test_what_the_user_may_not_read_is_unknown(server: ApiServer, cede: Run) -> None:
    tell_about_itself(server)
    put_kueue(server)
    for name in COMPONENTS:
        path = DEPLOYMENTS.path((names.SYSTEM_NAMESPACE, name))
        server.script("GET", path, refuses(403, "Forbidden"))
    _, text, _ = await cede("doctor", "-o", "json")
    results = {finding["subject"]: finding["state"] for finding in json.loads(text)}
    assert [results[name] for name in COMPONENTS] == ["unknown"] * 3


async def test_kinds_that_the_user_may_not_read_are_unknown(server: ApiServer, cede: Run) -> None:
    server.script("GET", "/version", answers({"gitVersion": "v1.36.3"}))
    for kind in NEEDED_KINDS:
        server.script("GET", f"/apis/{kind.api_version}", refuses(403, "Forbidden"))
    put_kueue(server)
    _, text, _ = await cede("doctor", "-o", "json")
    results = {finding["subject"]: finding["state"] for finding in json.loads(text)}
    assert (results["Kueue"], results["CRDs"]) == ("unknown", "unknown")


async def test_each_object_of_another_version_is_wrong_and_the_rest_is_checked(
    server: ApiServer, cede: Run
) -> None:
    tell_about_itself(server)
    put_kueue(server)
    server.put(POLICIES, {"metadata": {"name": "default"}, "spec": {"mode": "Newer"}})
    for kind in (ALLOCATIONS, CESSIONS):
        server.put(kind, {"metadata": {"name": "newer"}, "spec": 1})
    code, text, errors = await cede("doctor", "-o", "json")
    results = json.loads(text)
    messages = [
        finding["message"]
        for finding in results
        if (finding["subject"], finding["state"]) == ("objects", "WRONG")
    ]
    assert (code, errors) == (1, "")
    for name in ("ClusterPolicy default", "ComputeAllocation newer", "Cession newer"):
        [message] = [message for message in messages if f"cannot read {name}: " in message]
        assert message.endswith(": use the version that wrote it")
    assert "guards" in {finding["subject"] for finding in results}
    assert "ClusterPolicy" not in {finding["subject"] for finding in results}


def test_the_end_of_a_certificate_authority_is_read() -> None:
    issued = time.time()
    lifetime_s = issue_ca(issued).expires - issued
    assert ca_end(bundle(issued)) == pytest.approx(issued + lifetime_s, abs=2)


@pytest.mark.parametrize("text", ["", "bm90IGEgY2VydGlmaWNhdGU=", "%"])
def test_what_is_no_certificate_has_no_end(text: str) -> None:
    assert ca_end(text) == 0.0
