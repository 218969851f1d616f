"""The process, against a fake API server: its leader keeps the certificates of the webhook."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cede.api import names
from cede.api.objects import LEASES, SECRETS
from cede.kube import service
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY
from quota_controller.__main__ import run
from quota_controller.controller import Controller
from tests.harness.certificates import CertificateServer, Clock, handshake, run_webhook
from webhook.serving_certificate import RECHECK_INTERVAL_S

LEASE = (names.SYSTEM_NAMESPACE, names.QUOTA_CONTROLLER_LEASE)


@asynccontextmanager
async def running(server: CertificateServer, identity: str) -> AsyncIterator[None]:
    parser = argparse.ArgumentParser()
    service.add_flags(parser, identity)
    flags = service.read_flags(parser.parse_args(["--port", "0"]))
    async with server.client(names.QUOTA_CONTROLLER) as client:
        task = asyncio.create_task(run(client, flags))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_leader_makes_the_certificates_and_a_standby_does_not() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
        metadata = {"namespace": LEASE[0], "name": LEASE[1]}
        server.put(LEASES, {"metadata": metadata, "spec": spec})
        async with run_webhook(server, Clock()) as webhook, running(server, "pod-1"):
            assert await webhook.reconcile() == RECHECK_INTERVAL_S
            async with asyncio.timeout(30):
                # no event tells of a request
                while server.requests.count(("GET", LEASES.path(LEASE))) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert server.writes() == []
                server.remove(LEASES, LEASE)
                while not webhook.is_valid:
                    server.changed.clear()
                    await server.changed.wait()
                    await webhook.reconcile()
            handshake(webhook.context, server.stored_certificates().bundle)
            assert server.get(SECRETS, WEBHOOK_SECRET_KEY)


async def test_who_begins_to_lead_forgets_what_it_granted_as_an_earlier_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another replica may have granted something else meanwhile."""
    began = asyncio.Event()
    monkeypatch.setattr(Controller, "begin", lambda _: began.set())
    async with CertificateServer() as server:
        server.reset_configurations()
        async with running(server, "pod-1"):
            await asyncio.wait_for(began.wait(), 30)
