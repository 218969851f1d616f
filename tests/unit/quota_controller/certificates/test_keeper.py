"""API servers trust every replica of the webhook at every moment: through rotation, loss and
races."""

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from cede.api.names import NEW_CA
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY, read_secret
from quota_controller.certificates.keeper import CONFIGURATION_KEY
from quota_controller.certificates.rotation import (
    CA_LIFETIME_S,
    LEAF_LIFETIME_S,
    SETTLE_S,
)
from tests.harness.certificates import (
    CONFIGURATION_KINDS,
    CertificateServer,
    Clock,
    Served,
    certificates_at,
    fresh_certificates,
    handshake,
    logged_reasons,
    run_keeper,
    run_webhook,
    settle,
    wait_until_synced,
)


# --- the beginning --------------------------------------------------------------------------------
async def test_the_first_certificate_is_issued_served_and_trusted() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_keeper(server, clock) as keeper, run_webhook(server, clock) as webhook:
            await webhook.reconcile()
            assert not webhook.is_valid
            await settle(server, keeper, webhook)
            assert webhook.is_valid
            assert server.published_bundles() == {server.stored_certificates().bundle}
            handshake(webhook.context, server.stored_certificates().bundle)
            writes = len(server.writes())
            await keeper.reconcile()
            assert len(server.writes()) == writes


async def test_a_certificate_is_written_only_once_its_ca_is_published() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as keeper:
            has_certificate = False
            for _ in range(6):
                await keeper.reconcile()
                await wait_until_synced(server, keeper)
                webhooks = (server.get(MUTATING_WEBHOOKS, CONFIGURATION_KEY) or {})["webhooks"]
                published = all("caBundle" in webhook["clientConfig"] for webhook in webhooks)
                has_certificate = server.stored_certificates().leaf is not None
                assert published or not has_certificate
            assert has_certificate, "it is written in the end"


async def test_there_is_no_certificate_without_webhook_configurations_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with CertificateServer() as server, run_keeper(server, Clock()) as keeper:
        await settle(server, keeper)
        await keeper.reconcile()
        assert logged_reasons(caplog) == [
            "a webhook configuration is missing, so API servers do not know the CA"
        ]
        secret = server.get(SECRETS, WEBHOOK_SECRET_KEY)
        assert secret
        assert read_secret(secret).ca
        assert read_secret(secret).leaf is None
        assert secret["type"] == "kubernetes.io/tls"
        assert secret["data"].keys() >= {"tls.crt", "tls.key"}, "which this type requires"
        server.reset_configurations()
        await settle(server, keeper)
        assert server.stored_certificates().leaf


async def test_a_certificate_is_renewed_without_webhook_configurations() -> None:
    """They are installed again, and then trust it at once."""
    aging = Clock(-LEAF_LIFETIME_S * 0.67).now
    old = certificates_at(aging)
    async with CertificateServer() as server:
        server.put_certificates(old)
        async with run_keeper(server, Clock()) as keeper:
            await settle(server, keeper)
            new = server.stored_certificates()
            assert new.ca == old.ca
            assert new.leaf
            assert new.leaf != old.leaf


# --- damage by hand -------------------------------------------------------------------------------
async def test_a_deleted_secret_is_restored() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as keeper:
            await settle(server, keeper)
            before = server.stored_certificates()
            server.remove(SECRETS, WEBHOOK_SECRET_KEY)
            await settle(server, keeper)
            assert server.stored_certificates() == before


async def test_a_deleted_secret_is_restored_by_a_replica_that_did_not_lead() -> None:
    """Also with what another leader made of it, such as the CA that follows one that leaked."""
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as leader, run_keeper(server, Clock()) as standby:
            await settle(server, standby)
            server.put_certificates(fresh_certificates())
            await wait_until_synced(server, leader, standby)
            await settle(server, leader)
            before = server.stored_certificates()
            await wait_until_synced(server, standby)
            server.remove(SECRETS, WEBHOOK_SECRET_KEY)
            await settle(server, standby)
            assert server.stored_certificates() == before


async def test_trust_is_not_lost_when_the_secret_was_deleted_while_nobody_kept_it() -> None:
    """The webhook serves what it has until there is another certificate."""
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_webhook(server, clock) as webhook:
            async with run_keeper(server, clock) as keeper:
                await settle(server, keeper, webhook)
                old = server.stored_certificates()
            server.remove(SECRETS, WEBHOOK_SECRET_KEY)
            async with run_keeper(server, clock) as keeper:
                for _ in range(8):
                    await wait_until_synced(server, keeper, webhook)
                    await keeper.reconcile()
                    assert_trusted_by_all_bundles(server, webhook)
                    await wait_until_synced(server, keeper, webhook)
                    await webhook.reconcile()
                    assert_trusted_by_all_bundles(server, webhook)
                    clock.now += SETTLE_S / 2
            new = server.stored_certificates()
            assert new.ca != old.ca
            assert not new.previous_ca
            handshake(webhook.context, new.bundle)


async def test_bundles_removed_by_hand_are_restored_in_every_webhook() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as keeper:
            await settle(server, keeper)
            server.reset_configurations()
            await settle(server, keeper)
            assert server.published_bundles() == {server.stored_certificates().bundle}


@pytest.mark.parametrize("with_bundles", [True, False])
async def test_a_webhook_that_a_second_installation_took_is_taken_back(with_bundles: bool) -> None:
    """API servers would ask a Service that is not there, and accept everything."""
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_keeper(server, Clock()) as keeper:
            await settle(server, keeper)
            before = [server.get(kind, CONFIGURATION_KEY) or {} for kind in CONFIGURATION_KINDS]
            if not with_bundles:
                server.reset_configurations("other")
            for kind in CONFIGURATION_KINDS:
                configuration = server.get(kind, CONFIGURATION_KEY) or {}
                for webhook in configuration["webhooks"]:
                    webhook["clientConfig"]["service"]["namespace"] = "other"
                server.put(kind, configuration)
            await settle(server, keeper)
            after = [server.get(kind, CONFIGURATION_KEY) or {} for kind in CONFIGURATION_KINDS]
    assert [item["webhooks"] for item in after] == [item["webhooks"] for item in before]


async def test_a_broken_secret_is_restored_while_the_old_certificate_is_served() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_keeper(server, clock) as keeper, run_webhook(server, clock) as webhook:
            await settle(server, keeper, webhook)
            before = server.stored_certificates()
            server.put_secret({"tls.crt": "cnViYmlzaA=="})
            await wait_until_synced(server, keeper, webhook)
            await webhook.reconcile()
            handshake(webhook.context, before.bundle)
            await settle(server, keeper, webhook)
            assert server.stored_certificates() == before


# --- rotation -------------------------------------------------------------------------------------
async def test_every_replica_is_trusted_at_every_step_of_a_ca_rotation() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with (
            run_keeper(server, clock) as keeper,
            run_webhook(server, clock) as fast,
            run_webhook(server, clock) as slow,
        ):
            await settle(server, keeper, fast, slow)
            old = server.stored_certificates()
            assert old.ca
            clock.now += CA_LIFETIME_S * 0.67
            for _ in range(14):
                await keeper.reconcile()
                await wait_until_synced(server, keeper, fast, slow)
                await fast.reconcile()
                # the slow one still serves the certificate that it loaded last
                for webhook in (fast, slow):
                    assert_trusted_by_all_bundles(server, webhook)
                clock.now += SETTLE_S / 2
                await slow.reconcile()
            new = server.stored_certificates()
            assert new.ca != old.ca
            assert not new.previous_ca
            assert server.published_bundles() == {new.bundle}


async def test_an_admin_gets_a_new_ca_and_trust_is_never_lost() -> None:
    """A CA whose key has leaked came back when its Secret was deleted."""
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_keeper(server, clock) as keeper, run_webhook(server, clock) as webhook:
            await settle(server, keeper, webhook)
            old = server.stored_certificates()
            assert old.ca
            server.annotate_secret({NEW_CA: "true"})
            for _ in range(14):
                await wait_until_synced(server, keeper, webhook)
                await keeper.reconcile()
                await webhook.reconcile()
                assert_trusted_by_all_bundles(server, webhook)
                clock.now += SETTLE_S / 2
            new = server.stored_certificates()
            assert new.ca != old.ca
            assert old.ca.certificate.strip() not in new.bundle
            assert server.published_bundles() == {new.bundle}
            renewed = server.get(SECRETS, WEBHOOK_SECRET_KEY) or {}
            assert "annotations" not in renewed["metadata"], "one new CA, and no more"


def assert_trusted_by_all_bundles(server: CertificateServer, webhook: Served) -> None:
    assert webhook._served
    leaf = x509.load_pem_x509_certificate(webhook._served.certificate.encode())
    for bundle in server.published_bundles():
        authorities = x509.load_pem_x509_certificates(bundle.encode())
        assert any(is_signed_by(leaf, ca) for ca in authorities)


def is_signed_by(leaf: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(ca)
    except (ValueError, InvalidSignature):
        return False
    return True


async def test_an_expired_ca_is_replaced_before_readiness() -> None:
    issued = Clock(-2 * CA_LIFETIME_S).now
    old = certificates_at(issued)
    async with CertificateServer() as server:
        server.reset_configurations()
        server.put_certificates(old)
        clock = Clock()
        async with run_keeper(server, clock) as keeper, run_webhook(server, clock) as webhook:
            await webhook.reconcile()
            assert not webhook.is_valid
            await settle(server, keeper, webhook)
            assert server.stored_certificates().ca != old.ca
            assert webhook.is_valid
            handshake(webhook.context, server.stored_certificates().bundle)
