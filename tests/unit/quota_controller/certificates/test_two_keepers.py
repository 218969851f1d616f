"""Two that keep the certificates, at once or in turn, agree, and neither undoes the other."""

import base64
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest

from cede.api.certificates import DAY_S, Certificates
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY, read_secret
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.keeper import CONFIGURATION_KEY, CertificateKeeper
from quota_controller.certificates.rotation import LEAF_LIFETIME_S, SETTLE_S, Step
from tests.harness.certificates import (
    CertificateServer,
    Clock,
    certificates_at,
    fresh_certificates,
    handshake,
    logged_reasons,
    run_keeper,
    run_webhook,
    settle,
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


async def test_a_leader_whose_clock_is_slow_keeps_a_good_ca_and_says_why_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as correct:
            await settle(server, correct, webhook)
        before = server.stored_certificates()
        caplog.clear()
        # the second as on a node without a battery: 1970
        for slow_clock in (Clock(-20 * DAY_S), Clock(-Clock().now)):
            server.reset_configurations()
            async with run_keeper(server, slow_clock) as slow:
                await settle(server, slow, webhook)
                await slow.reconcile()
            assert server.stored_certificates() == before
            assert server.published_bundles() == {before.bundle}
            [why] = logged_reasons(caplog)
            assert "not valid yet by this clock" in why
            caplog.clear()
        handshake(webhook.context, before.bundle)


async def test_a_ca_by_a_fast_clock_is_kept_until_an_admin_deletes_the_secret() -> None:
    """Whose clock is wrong only a person knows."""
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        server.reset_configurations()
        async with run_keeper(server, Clock(20 * DAY_S)) as fast:
            await settle(server, fast, webhook)
        early = server.stored_certificates()
        async with run_keeper(server, Clock()) as correct:
            await settle(server, correct, webhook)
            assert server.stored_certificates() == early
            assert not webhook.is_valid
            server.remove(SECRETS, WEBHOOK_SECRET_KEY)
            await settle(server, correct, webhook)
            assert server.stored_certificates().ca != early.ca
            handshake(webhook.context, server.stored_certificates().bundle)


async def test_a_certificate_by_a_fast_clock_is_replaced_and_its_good_ca_is_kept() -> None:
    async with CertificateServer() as server, run_webhook(server, Clock()) as webhook:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as correct:
            await settle(server, correct, webhook)
        before = server.stored_certificates()
        async with run_keeper(server, Clock(LEAF_LIFETIME_S * 0.7)) as fast:
            await settle(server, fast, webhook)
            assert server.stored_certificates().leaf != before.leaf
            handshake(webhook.context, before.bundle)
        async with run_keeper(server, Clock()) as correct:
            await settle(server, correct, webhook)
        after = server.stored_certificates()
        assert after.ca == before.ca
        assert after.leaf
        assert after.leaf.is_valid(Clock().now)
        handshake(webhook.context, after.bundle)


async def test_published_bundles_are_joined_also_without_a_final_newline() -> None:
    """Two that differ, as after an edit by hand while nobody kept the Secret."""
    texts = [fresh_certificates().bundle.strip() for _ in "ab"]
    async with CertificateServer() as server:
        server.reset_configurations()
        configuration = server.get(MUTATING_WEBHOOKS, CONFIGURATION_KEY)
        assert configuration
        for webhook, text in zip(configuration["webhooks"], texts, strict=True):
            webhook["clientConfig"]["caBundle"] = base64.b64encode(text.encode()).decode()
        server.put(MUTATING_WEBHOOKS, configuration)
        async with run_keeper(server, Clock()) as keeper:
            await keeper.reconcile()
        previous = server.stored_certificates().previous_ca
        assert [text for text in texts if text not in previous] == []
        # the API server reads a certificate at the beginning of a line only
        assert previous.splitlines().count("-----BEGIN CERTIFICATE-----") == 2


class KeeperOfBefore(CertificateKeeper):
    """As in webhooks of earlier versions, which kept the certificates themselves: they write a
    certificate before its CA is published."""

    async def reconcile(self) -> float:
        secret = self.secret.get(WEBHOOK_SECRET_KEY)
        stored = read_secret(secret)
        if stored.ca and not stored.leaf:
            await self._write_secret(secret, self._take(Step.RENEW, stored, self._clock()), {})
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
    server.put_certificates(certificates_at(Clock(-LEAF_LIFETIME_S * 0.67).now))


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
            await settle(server, ours, before, webhook)
            handshake(webhook.context, server.stored_certificates().bundle)
