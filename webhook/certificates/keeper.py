"""Keeps the Secret, the served certificate and the published CA bundles in order."""

import base64
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress

from prometheus_client import Gauge

from cede.api.names import MANAGED_BY, MANAGED_BY_CEDE, NEW_CA, WEBHOOK
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, Conflict, NotFound
from webhook.certificates.issue import issue_ca, issue_leaf
from webhook.certificates.rotation import (
    Certificates,
    KeyPair,
    Step,
    next_step,
    seconds_until_recheck,
)
from webhook.certificates.secret import SECRET_KEY, read_secret, secret_data

log = logging.getLogger(__name__)
CONFIGURATION_KEY = ("", WEBHOOK)
"""The key of both webhook configurations."""
STEP_INTERVAL_S = 1.0
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


class CertificateKeeper:
    """Every replica runs one. They need no leader: each write carries the resource version of the
    state it was decided on, and a replica that loses the race looks again."""

    def __init__(
        self,
        client: Client,
        context: ssl.SSLContext,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        namespace, name = SECRET_KEY
        self._client = client
        self._context = context
        self._clock = clock
        self.secret = Cache[Json](
            client, SECRETS, dict, namespace=namespace, fields=f"metadata.name={name}", changed=wake
        )
        self.configurations = {
            kind: Cache[Json](
                client, kind, dict, fields=f"metadata.name={CONFIGURATION_KEY[1]}", changed=wake
            )
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        }
        # what is served; kept when the Secret is deleted
        self._served = Certificates()
        self._was_trusted = False

    @property
    def caches(self) -> list[Cache[Json]]:
        return [self.secret, *self.configurations.values()]

    @property
    def is_trusted(self) -> bool:
        """True while a valid certificate is served, once the published CA bundle has trusted it.

        A bundle that is edited by hand does not make this replica unready: it is repaired faster
        than traffic could move elsewhere.
        """
        leaf = self._served.leaf
        return self._was_trusted and leaf is not None and leaf.is_valid(self._clock())

    async def reconcile(self) -> float:
        """One pass: serves the stored certificate, then takes at most one step.

        Returns the seconds until the next pass when nothing changes.
        """
        secret = self.secret.get(SECRET_KEY)
        now = self._clock()
        stored = read_secret(secret)
        self._serve(stored, now)
        published = all(bundle == _encode_bundle(stored) for bundle in self._published_bundles())
        have_configurations = all(
            cache.get(CONFIGURATION_KEY) for cache in self.configurations.values()
        )
        if published and have_configurations and self._served == stored:
            self._was_trusted = True
        annotations = (secret or {}).get("metadata", {}).get("annotations") or {}
        # the write of the next CA removes the annotation
        new_ca_is_wanted = NEW_CA in annotations
        step, why = next_step(stored, published, now, new_ca_is_wanted=new_ca_is_wanted)
        if step is None:
            return seconds_until_recheck(stored)
        log.info("certificate step", extra={"step": step.value, "why": why})
        # another replica was faster; the next pass sees what it wrote
        with suppress(Conflict, AlreadyExists, NotFound):
            if step is Step.PUBLISH:
                await self._publish(stored)
            else:
                await self._write_secret(secret, self._take(step, stored, now))
        return STEP_INTERVAL_S

    def _serve(self, stored: Certificates, now: float) -> None:
        if stored == self._served or stored.leaf is None or not stored.leaf.is_valid(now):
            return
        load_certificate(self._context, stored.leaf)
        self._served = stored
        CERTIFICATE_EXPIRES.set(stored.leaf.expires)

    def _take(self, step: Step, stored: Certificates, now: float) -> Certificates:
        """The content of the Secret after the step."""
        if step is Step.ISSUE or stored.ca is None:
            served = self._served
            if served.ca and served.leaf and served.ca.is_valid(now) and served.leaf.is_valid(now):
                # only the Secret was lost: clients keep trusting the certificate
                return served
            ca = issue_ca(now)
            return Certificates(ca, issue_leaf(ca, now))
        if step is Step.STAGE:
            return Certificates(stored.ca, stored.leaf, issue_ca(now), stored.previous_ca)
        if step is Step.PROMOTE and stored.next_ca:
            leaf = issue_leaf(stored.next_ca, now)
            return Certificates(stored.next_ca, leaf, None, stored.ca.certificate)
        if step is Step.DROP:
            return Certificates(stored.ca, stored.leaf, stored.next_ca)
        leaf = issue_leaf(stored.ca, now)
        return Certificates(stored.ca, leaf, stored.next_ca, stored.previous_ca)

    async def _write_secret(self, secret: Json | None, certificates: Certificates) -> None:
        namespace, name = SECRET_KEY
        metadata: Json = {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGED_BY_CEDE},
        }
        body: Json = {"metadata": metadata, "data": secret_data(certificates)}
        if secret is None:
            body["type"] = "kubernetes.io/tls"
            await self._client.create(SECRETS, body, namespace=namespace)
            return
        metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
        # Kubernetes does not let the type of a Secret change
        body["type"] = secret.get("type", "Opaque")
        await self._client.replace(SECRETS, SECRET_KEY, body)

    def _published_bundles(self) -> Iterator[str | None]:
        """The CA bundle of every webhook in both configurations, base64."""
        for cache in self.configurations.values():
            configuration = cache.get(CONFIGURATION_KEY) or {}
            for webhook in configuration.get("webhooks") or []:
                yield webhook.get("clientConfig", {}).get("caBundle")

    async def _publish(self, stored: Certificates) -> None:
        """Makes every webhook in both configurations trust every CA in use.

        The patches address webhooks by index, so they carry the resource version they are for.
        """
        bundle = _encode_bundle(stored)
        for kind, cache in self.configurations.items():
            configuration = cache.get(CONFIGURATION_KEY)
            if not configuration:
                continue
            paths = [
                f"/webhooks/{i}/clientConfig/caBundle"
                for i, webhook in enumerate(configuration.get("webhooks") or [])
                if webhook["clientConfig"].get("caBundle") != bundle
            ]
            if paths:
                version = configuration["metadata"]["resourceVersion"]
                operations: list[Json] = [
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
                ]
                operations += [{"op": "add", "path": path, "value": bundle} for path in paths]
                await self._client.patch(kind, CONFIGURATION_KEY, operations)


def _encode_bundle(certificates: Certificates) -> str:
    return base64.b64encode(certificates.bundle.encode()).decode()
