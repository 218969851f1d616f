"""The ledger as it is deployed: it reads, and has one place to write."""

import asyncio
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.objects import Json
from ledger.controller import Controller
from ledger.database import Database
from tests.fakes.api_server import ApiServer
from tests.paths import TREE

FOLDER = TREE / "deploy/components/ledger"


def documents(kind: str) -> list[Json]:
    texts = [path.read_text() for path in FOLDER.glob("*.yaml")]
    loaded: list[Any] = [document for text in texts for document in yaml.safe_load_all(text)]
    return [document for document in loaded if document["kind"] == kind]


def rights(kind: str) -> set[tuple[str, str, str]]:
    """(resource, its name or nothing, verb)."""
    return {
        (resource, name, verb)
        for role in documents(kind)
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


async def test_in_the_cluster_it_may_read_what_it_follows_and_nothing_else() -> None:
    async with ApiServer() as server, server.client() as client:
        controller = Controller(client, asyncio.Event(), lambda: 0.0, Database("sqlite://"))
        kinds = {cache.kind.plural for cache in controller.caches}
    assert rights("ClusterRole") == {
        (plural, "", verb) for plural in kinds for verb in ("list", "watch")
    }


def test_it_may_write_its_lease_and_the_note_on_the_audit() -> None:
    assert rights("Role") == {
        ("leases", "", "create"),
        ("leases", names.LEDGER, "get"),
        ("leases", names.LEDGER, "update"),
        ("configmaps", names.LEDGER, "get"),
        ("configmaps", names.LEDGER, "patch"),
    }
    [note] = documents("ConfigMap")
    assert note["metadata"]["name"] == names.LEDGER


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


def test_two_pods_never_write_into_one_file() -> None:
    [deployment] = documents("Deployment")
    [volume] = documents("PersistentVolumeClaim")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert volume["spec"]["accessModes"] == ["ReadWriteOncePod"]


@pytest.mark.parametrize("kind", ["Deployment", "NetworkPolicy"])
def test_its_pods_are_those_that_the_policy_and_the_monitor_select(kind: str) -> None:
    [document] = documents(kind)
    spec = document["spec"]
    selector = spec.get("podSelector") or spec["selector"]
    assert selector["matchLabels"] == {"app.kubernetes.io/name": names.LEDGER}
