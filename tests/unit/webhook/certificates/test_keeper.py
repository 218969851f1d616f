"""API servers trust every replica at every moment: through rotation, loss and races."""

import ssl

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from cede.api.names import NEW_CA
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS
from tests.harness.certificates import (
    CertificateServer,
    Clock,
    fresh_certificates,
    handshake,
    run_replica,
    serving_context,
    settle,
    wait_until_synced,
)
from webhook.certificates.issue import issue_ca, issue_leaf
from webhook.certificates.keeper import CONFIGURATION_KEY, CertificateKeeper, load_certificate
from webhook.certificates.rotation import (
    CA_LIFETIME_S,
    DAY_S,
    LEAF_LIFETIME_S,
    SETTLE_S,
    Certificates,
)
from webhook.certificates.secret import SECRET_KEY


def test_a_live_context_serves_a_new_certificate() -> None:
    old = fresh_certificates()
    new = fresh_certificates()
    context = serving_context(old)
    assert new.leaf
    load_certificate(context, new.leaf)
    handshake(context, new.bundle)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, old.bundle)


# --- one replica, or several ----------------------------------------------------------------------
async def test_the_first_certificate_is_issued_served_and_trusted() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_replica(server, Clock()) as (keeper, context):
            assert not keeper.is_trusted
            await settle(server, keeper)
            assert keeper.is_trusted
            assert server.published_bundles() == {server.stored_certificates().bundle}
            handshake(context, server.stored_certificates().bundle)
            writes = len(server.writes())
            await keeper.reconcile()
            assert len(server.writes()) == writes


async def test_two_replicas_agree_on_one_certificate() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with (
            run_replica(server, clock) as (keeper_a, context_a),
            run_replica(server, clock) as (keeper_b, context_b),
        ):
            await settle(server, keeper_a, keeper_b)
            for context in (context_a, context_b):
                handshake(context, server.stored_certificates().bundle)
            assert server.published_bundles() == {server.stored_certificates().bundle}


async def test_two_clocks_that_are_days_apart_agree_on_one_certificate() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with (
            run_replica(server, Clock(20 * DAY_S)) as (fast, fast_context),
            run_replica(server, Clock()) as (correct, correct_context),
        ):
            await settle(server, fast)
            await settle(server, fast, correct)
            for context in (fast_context, correct_context):
                handshake(context, server.stored_certificates().bundle)


# --- damage by hand -------------------------------------------------------------------------------
async def test_a_deleted_secret_is_restored() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_replica(server, Clock()) as (keeper, _):
            await settle(server, keeper)
            before = server.stored_certificates()
            server.remove(SECRETS, SECRET_KEY)
            await wait_until_synced(server, keeper)
            await settle(server, keeper)
            assert server.stored_certificates() == before


async def test_bundles_removed_by_hand_are_restored_in_every_webhook() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_replica(server, Clock()) as (keeper, _):
            await settle(server, keeper)
            server.reset_configurations()
            await wait_until_synced(server, keeper)
            await settle(server, keeper)
            assert server.published_bundles() == {server.stored_certificates().bundle}


async def test_a_broken_secret_is_restored_while_the_old_certificate_is_served() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_replica(server, Clock()) as (keeper, context):
            await settle(server, keeper)
            before = server.stored_certificates()
            server.put_secret({"tls.crt": "cnViYmlzaA=="})
            await wait_until_synced(server, keeper)
            handshake(context, before.bundle)
            await settle(server, keeper)
            assert server.stored_certificates() == before


# --- rotation -------------------------------------------------------------------------------------
async def test_every_replica_is_trusted_at_every_step_of_a_ca_rotation() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with (
            run_replica(server, clock) as (fast, _),
            run_replica(server, clock) as (slow, _),
        ):
            await settle(server, fast, slow)
            old = server.stored_certificates()
            assert old.ca
            clock.now += CA_LIFETIME_S * 0.67
            for _ in range(14):
                await fast.reconcile()
                await wait_until_synced(server, fast, slow)
                # the slow one still serves the certificate that it loaded last
                for keeper in (fast, slow):
                    assert_trusted_by_all_bundles(server, keeper)
                clock.now += SETTLE_S / 2
                await slow.reconcile()
                await wait_until_synced(server, fast, slow)
            new = server.stored_certificates()
            assert new.ca != old.ca
            assert not new.previous_ca
            assert server.published_bundles() == {new.bundle}


async def test_an_admin_gets_a_new_ca_and_trust_is_never_lost() -> None:
    """A CA whose key has leaked came back when its Secret was deleted."""
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_replica(server, clock) as (keeper, _):
            await settle(server, keeper)
            old = server.stored_certificates()
            secret = server.get(SECRETS, SECRET_KEY)
            assert old.ca
            assert secret
            secret["metadata"]["annotations"] = {NEW_CA: "true"}
            server.put(SECRETS, secret)
            for _ in range(14):
                await wait_until_synced(server, keeper)
                await keeper.reconcile()
                assert_trusted_by_all_bundles(server, keeper)
                clock.now += SETTLE_S / 2
            new = server.stored_certificates()
            assert new.ca != old.ca
            assert old.ca.certificate.strip() not in new.bundle
            assert server.published_bundles() == {new.bundle}
            renewed = server.get(SECRETS, SECRET_KEY) or {}
            assert "annotations" not in renewed["metadata"], "one new CA, and no more"


def assert_trusted_by_all_bundles(server: CertificateServer, keeper: CertificateKeeper) -> None:
    assert keeper._served.leaf
    leaf = x509.load_pem_x509_certificate(keeper._served.leaf.certificate.encode())
    for bundle in server.published_bundles():
        authorities = x509.load_pem_x509_certificates(bundle.encode())
        assert any(is_signed_by(leaf, ca) for ca in authorities)


def is_signed_by(leaf: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(ca)
    except (ValueError, InvalidSignature):
        return False
    return True


# --- readiness ------------------------------------------------------------------------------------
async def test_a_replica_is_not_ready_before_its_certificate_is_trusted() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        async with run_replica(server, Clock()) as (keeper, _):
            for _ in range(6):
                await keeper.reconcile()
                webhooks = (server.get(MUTATING_WEBHOOKS, CONFIGURATION_KEY) or {})["webhooks"]
                published = all("caBundle" in webhook["clientConfig"] for webhook in webhooks)
                assert published or not keeper.is_trusted
            assert keeper.is_trusted, "it is ready in the end"


async def test_a_replica_is_not_ready_with_an_expired_certificate() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_replica(server, clock) as (keeper, _):
            await settle(server, keeper)
            assert keeper.is_trusted
            # nobody could renew it, for example for lack of permission
            clock.now += LEAF_LIFETIME_S + 1
            assert not keeper.is_trusted


async def test_a_replica_is_not_ready_without_webhook_configurations() -> None:
    async with CertificateServer() as server, run_replica(server, Clock()) as (keeper, _):
        await settle(server, keeper)
        assert not keeper.is_trusted
        server.reset_configurations()
        await wait_until_synced(server, keeper)
        await settle(server, keeper)
        assert keeper.is_trusted


@pytest.mark.parametrize(
    "offset_s", [20 * DAY_S, -2 * CA_LIFETIME_S], ids=["issued in the future", "expired long ago"]
)
async def test_a_ca_that_is_not_valid_now_is_replaced_before_readiness(offset_s: float) -> None:
    issued = Clock(offset_s).now
    old_ca = issue_ca(issued)
    async with CertificateServer() as server:
        server.reset_configurations()
        server.put_certificates(Certificates(old_ca, issue_leaf(old_ca, issued)))
        async with run_replica(server, Clock()) as (keeper, context):
            await keeper.reconcile()
            assert not keeper.is_trusted
            await wait_until_synced(server, keeper)
            await settle(server, keeper)
            assert server.stored_certificates().ca != old_ca
            assert keeper.is_trusted
            handshake(context, server.stored_certificates().bundle)
