"""The ledger as it is deployed: it reads, and has one place to write."""

import asyncio
from functools import partial

import pytest

from cede.api import names
from ledger.controller import Controller
from ledger.database import Database
from tests.fakes.api_server import ApiServer
from tests.harness.component_manifests import manifests

documents = partial(manifests, "ledger")


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
