"""An admin who asks for a new CA gets one, whatever the keeper is about to do."""

import pytest

from cede.api.names import NEW_CA
from cede.api.objects import SECRETS
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY
from quota_controller.certificates.rotation import LEAF_LIFETIME_S, SETTLE_S
from tests.harness.certificates import (
    CertificateServer,
    Clock,
    certificates_at,
    run_keeper,
    settle,
    wait_until_synced,
)


def request_new_ca(server: CertificateServer) -> None:
    server.annotate_secret({NEW_CA: "true", "of-an-admin": "kept"})


@pytest.mark.parametrize("steps_before", [1, 2, 3, 4, 5])
async def test_a_request_during_a_rotation_gives_a_further_ca(steps_before: int) -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        clock = Clock()
        async with run_keeper(server, clock) as keeper:

            async def passes(count: int) -> None:
                for _ in range(count):
                    await wait_until_synced(server, keeper)
                    await keeper.reconcile()
                    clock.now += SETTLE_S / 2
                await wait_until_synced(server, keeper)

            await settle(server, keeper)
            request_new_ca(server)
            await passes(steps_before)
            during = server.stored_certificates()
            next_ca = during.next_ca or during.ca
            assert next_ca
            request_new_ca(server)
            await passes(28)
            new = server.stored_certificates()
            assert new.ca
            assert new.ca != next_ca
            assert server.published_bundles() == {new.bundle}
            secret = server.get(SECRETS, WEBHOOK_SECRET_KEY) or {}
            assert secret["metadata"]["annotations"] == {"of-an-admin": "kept"}


async def test_a_request_while_a_certificate_is_due_gives_a_new_ca() -> None:
    async with CertificateServer() as server:
        server.reset_configurations()
        server.put_certificates(certificates_at(Clock(-LEAF_LIFETIME_S - 1).now))
        request_new_ca(server)
        async with run_keeper(server, Clock()) as keeper:
            await settle(server, keeper)
            assert server.stored_certificates().next_ca
