"""The webhook serves what the quota_controller keeps, as soon as it is there, and keeps it."""

import asyncio
import ssl
from collections.abc import Callable

import pytest

from cede.api.certificates import DAY_S, Certificates
from cede.api.objects import SECRETS
from cede.kube import loop
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.rotation import LEAF_LIFETIME_S
from tests.harness.certificates import (
    CertificateServer,
    Clock,
    Served,
    certificates_at,
    fresh_certificates,
    handshake,
    logged_reasons,
    run_webhook,
    serving_context,
    wait_until_synced,
)
from webhook.serving_certificate import CERTIFICATE_EXPIRES, load_certificate

WAITING = "not ready: there is no valid certificate"


def test_a_live_context_serves_a_new_certificate() -> None:
    old = fresh_certificates()
    new = fresh_certificates()
    context = serving_context(old)
    assert new.leaf
    load_certificate(context, new.leaf)
    handshake(context, new.bundle)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, old.bundle)


async def test_it_waits_for_the_first_certificate_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The quota_controller may start later."""
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        for _ in range(3):
            await webhook.reconcile()
        server.put_certificates(Certificates(issue_ca(Clock().now)))
        await wait_until_synced(server, webhook)
        await webhook.reconcile()
        assert not webhook.is_valid
        [record] = [record for record in caplog.records if record.message == WAITING]
        assert vars(record)["why"] == "the Secret has no usable certificate"
        assert vars(record)["secret"] == "cede-webhook-cert"
        assert vars(record)["written_by"] == "cede-quota-controller"


async def test_it_says_once_why_each_stored_certificate_is_not_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        for offset_s in (20 * DAY_S, -LEAF_LIFETIME_S - DAY_S):
            server.put_certificates(certificates_at(Clock(offset_s).now))
            await wait_until_synced(server, webhook)
            for _ in range(2):
                await webhook.reconcile()
    assert logged_reasons(caplog) == [
        "the certificate in the Secret is not valid yet by this clock",
        "the certificate in the Secret has expired",
    ]


async def test_it_serves_a_certificate_as_soon_as_it_is_there() -> None:
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        async with asyncio.TaskGroup() as tasks:
            passes = tasks.create_task(loop.run(webhook.reconcile, server.changed))
            certificates = fresh_certificates()
            for stored in (Certificates(certificates.ca), certificates):
                server.put_certificates(stored)
            async with asyncio.timeout(5):
                # the loop tells nobody of a pass
                while not webhook.is_valid:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            passes.cancel()
        handshake(webhook.context, certificates.bundle)
        assert certificates.leaf
        assert CERTIFICATE_EXPIRES._value.get() == certificates.leaf.expires


def delete(server: CertificateServer) -> None:
    server.remove(SECRETS, WEBHOOK_SECRET_KEY)


def break_(server: CertificateServer) -> None:
    server.put_secret({"tls.crt": "cnViYmlzaA=="})


def put_one_of_another_ca(server: CertificateServer) -> None:
    stored, other = server.stored_certificates(), fresh_certificates()
    server.put_certificates(Certificates(stored.ca, other.leaf))


def put_one_that_has_expired(server: CertificateServer) -> None:
    ca = server.stored_certificates().ca
    assert ca
    leaf = issue_leaf(ca, Clock(-LEAF_LIFETIME_S - DAY_S).now)
    server.put_certificates(Certificates(ca, leaf))


Damage = Callable[[CertificateServer], None]


@pytest.mark.parametrize(
    "damage", [delete, break_, put_one_of_another_ca, put_one_that_has_expired]
)
async def test_it_serves_what_it_has_while_the_secret_has_nothing_better(damage: Damage) -> None:
    """For as long as no quota_controller is there to repair it."""
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        certificates = fresh_certificates()
        await serve(server, webhook, certificates)
        damage(server)
        await wait_until_synced(server, webhook)
        await webhook.reconcile()
        assert webhook.is_valid
        handshake(webhook.context, certificates.bundle)
        assert server.writes() == []


async def test_a_replica_is_not_ready_with_an_expired_certificate_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with CertificateServer() as server:
        clock = Clock()
        async with run_webhook(server, clock) as webhook:
            await serve(server, webhook, fresh_certificates())
            assert webhook.is_valid
            # no quota_controller renewed it
            clock.now += LEAF_LIFETIME_S + 1
            for _ in range(2):
                await webhook.reconcile()
            assert not webhook.is_valid
            assert logged_reasons(caplog) == ["the certificate in the Secret has expired"]
            # it may end again
            await serve(server, webhook, certificates_at(clock.now))
            assert webhook.is_valid
            clock.now += LEAF_LIFETIME_S + 1
            await webhook.reconcile()
            assert len(logged_reasons(caplog)) == 2


async def serve(server: CertificateServer, webhook: Served, certificates: Certificates) -> None:
    server.put_certificates(certificates)
    await wait_until_synced(server, webhook)
    await webhook.reconcile()
