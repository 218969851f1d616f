"""Real clients over real TLS are answered at every step of a certificate rotation."""

import asyncio
import io
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from cede.api.certificates import Certificates
from cede.kube.webhook_secret import HOSTS
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.rotation import CA_LIFETIME_S, LEAF_LIFETIME_S, SETTLE_S
from tests.builders.jobs import TEAM, elastic_job, make_review
from tests.harness.certificates import (
    CertificateServer,
    Clock,
    client_context,
    run_keeper,
    run_webhook,
    settle,
    wait_until_synced,
)
from webhook.connections import Connections
from webhook.server import MUTATE, create_app

BODY = json.dumps(make_review(elastic_job(8, "2-8"))).encode()
AGED = 0.7
"""The part of a lifetime after which a CA and a certificate are due, and still valid."""


class ApiServerClients:
    """Two API servers that send reviews all the time, each on new connections.

    One has just read the configuration, the other one has the version before.
    """

    def __init__(self, server: CertificateServer, port: int) -> None:
        self.server = server
        self.port = port
        self.bundles = {"current": self._published(), "outdated": self._published()}
        self.answers = dict.fromkeys(self.bundles, 0)
        self.answered = asyncio.Event()

    def _published(self) -> str:
        [bundle] = self.server.published_bundles()
        return bundle

    def read_configuration(self) -> None:
        self.bundles = {"current": self._published(), "outdated": self.bundles["current"]}

    async def send_reviews(self, name: str) -> None:
        """Never returns. Raises when a connection is not trusted or an answer is not valid."""
        while True:
            connector = aiohttp.TCPConnector(ssl=client_context(self.bundles[name]))
            async with aiohttp.ClientSession(connector=connector) as session:
                url = f"https://127.0.0.1:{self.port}{MUTATE}"
                async with session.post(
                    url, data=io.BytesIO(BODY), server_hostname=HOSTS[0]
                ) as response:
                    assert (await response.json())["response"]["allowed"]
            self.answers[name] += 1
            self.answered.set()

    async def wait_for_answers(self) -> None:
        """Returns when each client has got two more answers."""
        before = dict(self.answers)
        async with asyncio.timeout(20):
            while any(self.answers[name] < before[name] + 2 for name in before):
                self.answered.clear()
                await self.answered.wait()


@asynccontextmanager
async def run_clients(
    server: CertificateServer, context: ssl.SSLContext
) -> AsyncIterator[ApiServerClients]:
    """The webhook with this TLS context, and clients that send reviews until the end."""
    runner = web.AppRunner(create_app(lambda namespace: TEAM, Connections()), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    clients = ApiServerClients(server, runner.addresses[0][1])
    try:
        async with asyncio.TaskGroup() as tasks:
            senders = [tasks.create_task(clients.send_reviews(name)) for name in clients.bundles]
            yield clients
            await clients.wait_for_answers()
            for sender in senders:
                sender.cancel()
    finally:
        await runner.cleanup()


def aged_certificates(now: float) -> Certificates:
    """A CA and a certificate that are both due, and still valid on every clock."""
    ca = issue_ca(now - CA_LIFETIME_S * AGED)
    return Certificates(ca, issue_leaf(ca, now - LEAF_LIFETIME_S * AGED))


async def test_every_request_is_answered_while_certificate_and_ca_are_replaced() -> None:
    old = aged_certificates(time.time())
    async with CertificateServer() as server:
        server.reset_configurations()
        server.put_certificates(old)
        clock = Clock()
        async with run_keeper(server, clock) as keeper, run_webhook(server, clock) as webhook:
            await webhook.reconcile()
            # the first pass publishes
            await keeper.reconcile()
            async with run_clients(server, webhook.context) as clients:
                for _ in range(12):
                    await clients.wait_for_answers()
                    await keeper.reconcile()
                    await wait_until_synced(server, keeper, webhook)
                    await webhook.reconcile()
                    clients.read_configuration()
                    clock.now += SETTLE_S + 1
                    new = server.stored_certificates()
                    is_published = server.published_bundles() == {new.bundle}
                    if new.ca != old.ca and not new.previous_ca and is_published:
                        break
            assert new.ca != old.ca
            assert not new.previous_ca, "the rotation is complete"
            assert new.leaf != old.leaf


@pytest.mark.parametrize("offset_s", [-600.0, 600.0], ids=["a slow clock", "a fast clock"])
async def test_a_certificate_issued_on_a_wrong_clock_is_accepted(offset_s: float) -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock(offset_s)
        async with run_keeper(server, clock) as keeper, run_webhook(server, clock) as webhook:
            await settle(server, keeper, webhook)
            async with run_clients(server, webhook.context):
                # run_clients waits until both clients are answered
                pass
