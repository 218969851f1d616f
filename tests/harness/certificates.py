"""What keeps certificates and what serves them against a fake API server, and TLS clients."""

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

import pytest

from cede.api.certificates import Certificates
from cede.api.names import QUOTA_CONTROLLER, SYSTEM_NAMESPACE, WEBHOOK
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json
from cede.kube.cache import Cache, all_synced
from cede.kube.webhook_secret import HOSTS, WEBHOOK_SECRET_KEY, read_secret, secret_data
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.keeper import CONFIGURATION_KEY, CertificateKeeper
from tests.fakes.api_server import ApiServer
from webhook.serving_certificate import ServingCertificate, load_certificate

CONFIGURATION_KINDS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
MAX_PASSES = 12


class Clock:
    """Starts at the real time, because OpenSSL checks certificates against it."""

    def __init__(self, offset_s: float = 0.0) -> None:
        self.now = time.time() + offset_s

    def __call__(self) -> float:
        return self.now


def fresh_certificates() -> Certificates:
    """A CA and a certificate that were issued now."""
    return certificates_at(time.time())


def certificates_at(now: float) -> Certificates:
    """A CA and a certificate that were issued then."""
    ca = issue_ca(now)
    return Certificates(ca, issue_leaf(ca, now))


def serving_context(certificates: Certificates) -> ssl.SSLContext:
    """The server's side of TLS with the leaf certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    assert certificates.leaf
    load_certificate(context, certificates.leaf)
    return context


def client_context(bundle: str) -> ssl.SSLContext:
    """A client's side of TLS, as strict as an API server's, that trusts only `bundle`."""
    context = ssl.create_default_context(cadata=bundle)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    return context


def handshake(server_context: ssl.SSLContext, bundle: str, host: str = HOSTS[0]) -> None:
    """A TLS handshake in memory. Raises ssl.SSLError."""
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client = client_context(bundle).wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


class CertificateServer(ApiServer):
    """An API server with the Secret and both webhook configurations."""

    def __init__(self) -> None:
        super().__init__()
        # set when a cache has received a change
        self.changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def reset_configurations(self, namespace: str = SYSTEM_NAMESPACE) -> None:
        """Both configurations without CA bundles, as they are installed in this namespace."""
        service = {"name": WEBHOOK, "namespace": namespace}
        for kind in CONFIGURATION_KINDS:
            webhooks = [
                {"name": name, "clientConfig": {"service": dict(service)}}
                for name in ("jobs.cede.dev", "elastic.cede.dev")
            ]
            self.put(kind, {"metadata": {"name": CONFIGURATION_KEY[1]}, "webhooks": webhooks})

    def put_secret(self, data: dict[str, str]) -> None:
        namespace, name = WEBHOOK_SECRET_KEY
        self.put(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data})

    def put_certificates(self, certificates: Certificates) -> None:
        self.put_secret(secret_data(certificates))

    def annotate_secret(self, annotations: dict[str, str]) -> None:
        """Afterwards it has these, and no others."""
        secret = self.get(SECRETS, WEBHOOK_SECRET_KEY)
        assert secret
        secret["metadata"]["annotations"] = annotations
        self.put(SECRETS, secret)

    def stored_certificates(self) -> Certificates:
        return read_secret(self.get(SECRETS, WEBHOOK_SECRET_KEY))

    def published_bundles(self) -> set[str]:
        """The CA bundles of all webhooks in both configurations."""
        bundles = set[str]()
        for kind in CONFIGURATION_KINDS:
            configuration = self.get(kind, CONFIGURATION_KEY) or {}
            for webhook in configuration["webhooks"]:
                encoded = webhook["clientConfig"].get("caBundle", "")
                bundles.add(base64.b64decode(encoded).decode())
        return bundles


class Served(ServingCertificate):
    """The serving side of a webhook, with the context of its TLS connections."""

    context: ssl.SSLContext

    @property
    def caches(self) -> list[Cache[Json]]:
        return [self.secret]


Part = CertificateKeeper | Served
"""What makes passes."""


@asynccontextmanager
async def run_keeper(
    server: CertificateServer, clock: Clock, make: type[CertificateKeeper] = CertificateKeeper
) -> AsyncIterator[CertificateKeeper]:
    """What a leader of the quota_controller runs; its caches follow the server. The test calls
    `reconcile`."""
    async with server.client(QUOTA_CONTROLLER) as client:
        keeper = make(client, server.changed, clock)
        async with _running(keeper.caches):
            yield keeper


@asynccontextmanager
async def run_webhook(server: CertificateServer, clock: Clock) -> AsyncIterator[Served]:
    """What a replica of the webhook serves; its cache follows the server. The test calls
    `reconcile`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    async with server.client(WEBHOOK) as client:
        served = Served(client, context, server.changed.set, clock)
        served.context = context
        async with _running(served.caches):
            yield served


@asynccontextmanager
async def _running(caches: Iterable[Cache[Any]]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        watches = [tasks.create_task(cache.run()) for cache in caches]
        await all_synced(caches)
        yield
        for watch in watches:
            watch.cancel()


async def wait_until_synced(server: CertificateServer, *parts: Part) -> None:
    """Returns when their caches hold what the server holds."""
    async with asyncio.timeout(5):
        for cache in [cache for part in parts for cache in part.caches]:
            key = WEBHOOK_SECRET_KEY if cache.kind == SECRETS else CONFIGURATION_KEY
            while _version(cache.get(key)) != _version(server.get(cache.kind, key)):
                server.changed.clear()
                await server.changed.wait()


def logged_reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why there is no valid certificate, as the keeper or the webhook logged it."""
    warnings = [record for record in caplog.records if "no valid certificate" in record.message]
    return [vars(record)["why"] for record in warnings]


def _version(obj: Json | None) -> str:
    return obj["metadata"]["resourceVersion"] if obj else ""


async def settle(server: CertificateServer, *parts: Part) -> None:
    """Runs passes of all parts at once, each with what the server holds then, until none of them
    writes any more."""
    for _ in range(MAX_PASSES):
        await wait_until_synced(server, *parts)
        writes_before = len(server.writes())
        await asyncio.gather(*(part.reconcile() for part in parts))
        if len(server.writes()) == writes_before:
            return
    raise AssertionError(f"the keepers write again and again: {server.writes()}")
