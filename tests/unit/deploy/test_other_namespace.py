"""No component works in a pod of another namespace than Cede's."""

import argparse
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from kubernetes.aio.config import incluster_config

import webhook.__main__
from cede.api import names
from cede.dashboard import __main__ as dashboard
from cede.kube import service
from cede.kube.client import Client
from cede.kube.connection import namespace_mistake


@pytest.fixture
def in_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """Tells this process that it is a pod in a namespace, without an API server that answers."""
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    return (tmp_path / "namespace").write_text


async def controller() -> None:
    """As the scheduler, the quota_controller and the ledger begin."""

    async def work(_: Client) -> None:
        pytest.fail("it works in another namespace", pytrace=False)

    parser = argparse.ArgumentParser()
    service.add_flags(parser, "pod-1")
    await service.run_process(service.read_flags(parser.parse_args([])), "test", work)


async def page() -> None:
    await dashboard.main(dashboard.parse_flags([]))


async def admission() -> None:
    await webhook.__main__.main(webhook.__main__.parse_flags([]))


@pytest.mark.parametrize("begin", [controller, page, admission])
async def test_a_component_ends_with_one_sentence(
    in_namespace: Callable[[str], int], begin: Callable[[], Awaitable[None]]
) -> None:
    in_namespace("other")
    with pytest.raises(SystemExit) as ended:
        await begin()
    assert ended.value.code == (
        "Cede runs in namespace cede-system only, once in a cluster, and this pod is in namespace "
        "other: remove the namespace from your overlay"
    )


def test_it_may_run_in_its_own_namespace_and_outside_of_a_cluster(
    in_namespace: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_namespace(names.SYSTEM_NAMESPACE)
    assert namespace_mistake() == ""
    in_namespace("other")
    assert namespace_mistake("some-kubeconfig") == ""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert namespace_mistake() == ""
