"""Keeps the Secret of the webhook's certificates, and the webhook configurations, in order."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from cede.api.certificates import Certificates
from cede.api.names import MANAGED_BY, MANAGED_BY_CEDE, NEW_CA, SYSTEM_NAMESPACE, WEBHOOK
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, Conflict, NotFound
from cede.kube.webhook_secret import (
    WEBHOOK_SECRET_KEY,
    decode_bundle,
    encode_bundle,
    read_secret,
    secret_data,
)
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.rotation import Step, next_step, seconds_until_recheck

log = logging.getLogger(__name__)
CONFIGURATION_KEY = ("", WEBHOOK)
"""The key of both webhook configurations."""
STEP_INTERVAL_S = 1.0


class CertificateKeeper:
    """The leader of the quota_controller runs it, beside its own passes.

    A second keeper does no harm: a leader that does not know yet that it is none, or a webhook of
    a version that kept the certificates itself. Each write carries the resource version of the
    state it was decided on, so whoever loses the race looks again. Whatever is in order for one is
    in order for the other, and no step undoes another, so in the end neither takes one.
    """

    def __init__(self, client: Client, wake: asyncio.Event, clock: Callable[[], float]) -> None:
        namespace, name = WEBHOOK_SECRET_KEY
        self._client = client
        self._clock = clock
        self.wake = wake
        self.secret = Cache[Json](
            client,
            SECRETS,
            dict,
            namespace=namespace,
            fields=f"metadata.name={name}",
            changed=self._note_secret,
        )
        self.configurations = {
            kind: Cache[Json](
                client, kind, dict, fields=f"metadata.name={CONFIGURATION_KEY[1]}", changed=wake.set
            )
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        }
        # as the Secret last had them complete, also while this replica does not lead
        self._known = Certificates()
        # why there is no valid certificate, as it was logged last
        self._logged_why = ""

    @property
    def caches(self) -> list[Cache[Json]]:
        return [self.secret, *self.configurations.values()]

    @property
    def needed_caches(self) -> list[Cache[Json]]:
        return self.caches

    def _note_secret(self) -> None:
        stored = read_secret(self.secret.get(WEBHOOK_SECRET_KEY))
        if stored.ca and stored.leaf:
            self._known = stored
        self.wake.set()

    async def reconcile(self) -> float:
        """One pass: takes at most one step. Returns the seconds until the next pass when nothing
        changes."""
        secret = self.secret.get(WEBHOOK_SECRET_KEY)
        now = self._clock()
        stored = read_secret(secret)
        bundle = encode_bundle(stored)
        annotations = (secret or {}).get("metadata", {}).get("annotations") or {}
        step, why = next_step(
            stored,
            not any(list(_corrections(item, bundle)) for item in self._configurations()),
            now,
            installed=all(self._configurations()),
            new_ca_is_wanted=NEW_CA in annotations,
        )
        if step is None:
            self._log_waiting("" if stored.has_valid_leaf(now) else why)
            return seconds_until_recheck(stored, now)
        log.info("certificate step", extra={"step": step.value, "why": why})
        # another keeper was faster; the next pass sees what it wrote
        with suppress(Conflict, AlreadyExists, NotFound):
            if step is Step.PUBLISH:
                await self._publish(bundle)
            else:
                if step is Step.STAGE:
                    # the request is met; one that comes later asks for a further CA
                    annotations = {k: v for k, v in annotations.items() if k != NEW_CA}
                await self._write_secret(secret, self._take(step, stored, now), annotations)
        return STEP_INTERVAL_S

    def _log_waiting(self, why: str) -> None:
        """Once for each reason, not at every pass."""
        if why and why != self._logged_why:
            log.warning("no valid certificate for the webhook", extra={"why": why})
        self._logged_why = why

    def _take(self, step: Step, stored: Certificates, now: float) -> Certificates:
        """The content of the Secret after the step."""
        if step is Step.ISSUE or stored.ca is None:
            known = self._known
            if known.ca and known.ca.is_valid(now) and known.has_valid_leaf(now):
                # only the Secret was lost: the webhook continues with its certificate
                return known
            # The first certificate is issued once this CA is published. The webhook may still
            # serve one by a CA that is trusted now.
            trusted = dict.fromkeys(map(decode_bundle, self._published_bundles()))
            return Certificates(issue_ca(now), previous_ca="\n".join(trusted))
        if step is Step.STAGE:
            return Certificates(stored.ca, stored.leaf, issue_ca(now), stored.previous_ca)
        if step is Step.PROMOTE and stored.next_ca:
            leaf = issue_leaf(stored.next_ca, now)
            return Certificates(stored.next_ca, leaf, None, stored.ca.certificate)
        if step is Step.DROP:
            return Certificates(stored.ca, stored.leaf, stored.next_ca)
        leaf = issue_leaf(stored.ca, now)
        return Certificates(stored.ca, leaf, stored.next_ca, stored.previous_ca)

    async def _write_secret(
        self, secret: Json | None, certificates: Certificates, annotations: Json
    ) -> None:
        namespace, name = WEBHOOK_SECRET_KEY
        metadata: Json = {
            "name": name,
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGED_BY_CEDE},
        }
        if annotations:
            metadata["annotations"] = annotations
        body: Json = {"metadata": metadata, "data": secret_data(certificates)}
        if secret is None:
            body["type"] = "kubernetes.io/tls"
            await self._client.create(SECRETS, body, namespace=namespace)
            return
        metadata["resourceVersion"] = secret["metadata"]["resourceVersion"]
        # Kubernetes does not let the type of a Secret change
        body["type"] = secret.get("type", "Opaque")
        await self._client.replace(SECRETS, WEBHOOK_SECRET_KEY, body)

    def _configurations(self) -> list[Json | None]:
        return [cache.get(CONFIGURATION_KEY) for cache in self.configurations.values()]

    def _published_bundles(self) -> list[str]:
        """The CA bundle of every webhook in both configurations, base64; empty without one."""
        return [
            webhook.get("clientConfig", {}).get("caBundle") or ""
            for configuration in self._configurations()
            for webhook in (configuration or {}).get("webhooks") or []
        ]

    async def _publish(self, bundle: str) -> None:
        """Makes API servers trust every CA in `bundle` for every webhook of both configurations,
        and ask the Service of this installation.

        The patches address webhooks by index, so they carry the resource version they are for.
        """
        for kind, cache in self.configurations.items():
            configuration = cache.get(CONFIGURATION_KEY)
            if not configuration:
                continue
            corrections = list(_corrections(configuration, bundle))
            if corrections:
                version = configuration["metadata"]["resourceVersion"]
                precondition: Json = {
                    "op": "replace",
                    "path": "/metadata/resourceVersion",
                    "value": version,
                }
                await self._client.patch(kind, CONFIGURATION_KEY, [precondition, *corrections])


def _corrections(configuration: Json | None, bundle: str) -> Iterator[Json]:
    """The operations of a JSON patch; none if it is in order, or does not exist."""
    for i, webhook in enumerate((configuration or {}).get("webhooks") or []):
        client = webhook.get("clientConfig", {})
        path = f"/webhooks/{i}/clientConfig"
        if client.get("caBundle") != bundle:
            yield {"op": "add", "path": f"{path}/caBundle", "value": bundle}
        # manifests that were applied for another namespace name a Service that is not there: an
        # API server would get no answer, and accept every request
        if "service" in client and client["service"].get("namespace") != SYSTEM_NAMESPACE:
            yield {"op": "add", "path": f"{path}/service/namespace", "value": SYSTEM_NAMESPACE}
