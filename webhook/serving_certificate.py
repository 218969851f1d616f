"""Serves the certificate that the quota_controller keeps in a Secret, and each new one at once."""

import logging
import os
import ssl
from collections.abc import Callable

from prometheus_client import Gauge

from cede.api.certificates import KeyPair
from cede.api.names import QUOTA_CONTROLLER
from cede.api.objects import SECRETS, Json, rfc3339
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.webhook_secret import WEBHOOK_SECRET_KEY, read_secret

log = logging.getLogger(__name__)
RECHECK_INTERVAL_S = 60.0
CERTIFICATE_EXPIRES = Gauge(
    "cede_webhook_certificate_not_after_seconds",
    "When the served certificate expires, in Unix seconds",
)


def load_certificate(context: ssl.SSLContext, pair: KeyPair) -> None:
    """New handshakes get this certificate, and open connections continue.

    OpenSSL reads from a file only; this one is in memory, so the key is never written to a disk.
    """
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, (pair.key + pair.certificate).encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


class ServingCertificate:
    """The certificate of this replica. It is kept while the Secret has none that is valid.

    API servers trust whatever is in the Secret: a certificate is written only once its CA was
    published (quota_controller.certificates.rotation).
    """

    def __init__(
        self,
        client: Client,
        context: ssl.SSLContext,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        namespace, name = WEBHOOK_SECRET_KEY
        self._context = context
        self._clock = clock
        self.secret = Cache[Json](
            client, SECRETS, dict, namespace=namespace, fields=f"metadata.name={name}", changed=wake
        )
        self._served: KeyPair | None = None
        # why there is no valid certificate, as it was logged last
        self._logged_why = ""

    @property
    def is_valid(self) -> bool:
        return self._served is not None and self._served.is_valid(self._clock())

    async def reconcile(self) -> float:
        """One pass: serves the stored certificate. Returns the seconds until the next pass when
        nothing changes."""
        stored = read_secret(self.secret.get(WEBHOOK_SECRET_KEY)).leaf
        now = self._clock()
        if stored and stored != self._served and stored.is_valid(now):
            load_certificate(self._context, stored)
            self._served = stored
            CERTIFICATE_EXPIRES.set(stored.expires)
            log.info("certificate served", extra={"expires": rfc3339(stored.expires)})
        self._log_waiting("" if self.is_valid else _why_not_served(stored, now))
        return RECHECK_INTERVAL_S

    def _log_waiting(self, why: str) -> None:
        """Once for each reason, not at every pass."""
        if why and why != self._logged_why:
            facts = {"why": why, "secret": WEBHOOK_SECRET_KEY[1], "written_by": QUOTA_CONTROLLER}
            log.warning("not ready: there is no valid certificate", extra=facts)
        self._logged_why = why


def _why_not_served(stored: KeyPair | None, now: float) -> str:
    if stored is None:
        return "the Secret has no usable certificate"
    if stored.is_early(now):
        return "the certificate in the Secret is not valid yet by this clock"
    return "the certificate in the Secret has expired"
