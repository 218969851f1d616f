"""Two that keep the certificates at once agree, and neither undoes what the other does."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from cede.api.certificates import DAY_S, Certificates
from cede.api.objects import SECRETS
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY, read_secret
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.keeper import CertificateKeeper
from quota_controller.certificates.rotation import LEAF_LIFETIME_S, SETTLE_S, Step
from tests.harness.certificates import (
    CertificateServer,
    Clock,
    fresh_certificates,
    handshake,
    run_keeper,
    run_webhook,
    settle,
    wait_until_synced,
)


async def test_two_keepers_agree_on_one_certificate_for_all_replicas() -> None:
    """One does not know yet that it does not lead any more."""
    async with CertificateServer() as server, AsyncExitStack() as stack:
        server.reset_configurations()
        clock = Clock()
        keepers = [await stack.enter_async_context(run_keeper(server, clock)) for _ in "ab"]
        webhooks = [await stack.enter_async_context(run_webhook(server, clock)) for _ in "ab"]
        await settle(server, *keepers, *webhooks)
        for webhook in webhooks:
            handshake(webhook.context, server.stored_certificates().bundle)
        assert server.published_bundles() == {server.stored_certificates().bundle}


async def test_two_clocks_that_are_days_apart_agree_on_one_certificate() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        fast_clock = Clock(20 * DAY_S)
        async with (
            run_keeper(server, fast_clock) as fast,
            run_keeper(server, Clock()) as correct,
            run_webhook(server, fast_clock) as fast_webhook,
            run_webhook(server, Clock()) as correct_webhook,
        ):
            await settle(server, fast, fast_webhook)
            await settle(server, fast, correct, fast_webhook, correct_webhook)
            for webhook in (fast_webhook, correct_webhook):
                handshake(webhook.context, server.stored_certificates().bundle)


class KeeperOfBefore(CertificateKeeper):
    """As in webhooks of earlier versions, which kept the certificates themselves: they write a
    certificate before its CA is published."""

    async def reconcile(self) -> float:
        secret = self.secret.get(WEBHOOK_SECRET_KEY)
        stored = read_secret(secret)
        if stored.ca and not stored.leaf:
            await self._write_secret(secret, self._take(Step.RENEW, stored, self._clock()))
            return 1.0
        return await super().reconcile()

    def _take(self, step: Step, stored: Certificates, now: float) -> Certificates:
        taken = super()._take(step, stored, now)
        if step is Step.ISSUE and taken.ca and not taken.leaf:
            return Certificates(taken.ca, issue_leaf(taken.ca, now))
        return taken


def nothing(server: CertificateServer) -> None:
    pass


def aging_certificate(server: CertificateServer) -> None:
    issued = Clock(-LEAF_LIFETIME_S * 0.67).now
    ca = issue_ca(issued)
    server.put_certificates(Certificates(ca, issue_leaf(ca, issued)))


def no_certificate(server: CertificateServer) -> None:
    server.put_certificates(Certificates(issue_ca(Clock().now)))


def half_of_a_rotation(server: CertificateServer) -> None:
    old = fresh_certificates()
    server.put_certificates(Certificates(old.ca, old.leaf, issue_ca(Clock(-SETTLE_S).now)))


Begin = Callable[[CertificateServer], None]


@pytest.mark.parametrize("begin", [nothing, aging_certificate, no_certificate, half_of_a_rotation])
async def test_a_webhook_of_an_earlier_version_and_we_do_not_write_for_ever(begin: Begin) -> None:
    """During an upgrade both keep the certificates. What is in order for one is for the other."""
    async with CertificateServer() as server:
        server.reset_configurations()
        begin(server)
        clock = Clock()
        async with (
            run_keeper(server, clock) as ours,
            run_keeper(server, clock, KeeperOfBefore) as before,
            run_webhook(server, clock) as webhook,
        ):
            # fails if they go on
            await settle(server, ours, before, webhook)
            handshake(webhook.context, server.stored_certificates().bundle)
            server.remove(SECRETS, WEBHOOK_SECRET_KEY)
            await wait_until_synced(server, ours, before, webhook)
            await settle(server, ours, before, webhook)
            handshake(webhook.context, server.stored_certificates().bundle)
