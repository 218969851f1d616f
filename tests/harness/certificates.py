"""Replicas of the certificate keeper against a fake API server, and TLS clients."""

import asyncio
import base64
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from cede.api.objects import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json
from tests.fakes.api_server import ApiServer
from webhook.certificates.issue import HOSTS, issue_ca, issue_leaf
from webhook.certificates.keeper import CONFIGURATION_KEY, CertificateKeeper, load_certificate
from webhook.certificates.rotation import Certificates
from webhook.certificates.secret import SECRET_KEY, read_secret, secret_data

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
    ca = issue_ca(time.time())
    return Certificates(ca, issue_leaf(ca, time.time()))


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
        # set when a cache of a replica has received a change
        self.changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    def reset_configurations(self) -> None:
        """Both configurations without CA bundles, as they are installed."""
        for kind in CONFIGURATION_KINDS:
            webhooks = [
                {"name": name, "clientConfig": {"service": {"name": "cede-webhook"}}}
                for name in ("jobs.cede.dev", "elastic.cede.dev")
            ]
            self.put(kind, {"metadata": {"name": CONFIGURATION_KEY[1]}, "webhooks": webhooks})

    def put_secret(self, data: dict[str, str]) -> None:
        namespace, name = SECRET_KEY
        self.put(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data})

    def put_certificates(self, certificates: Certificates) -> None:
        self.put_secret(secret_data(certificates))

    def stored_certificates(self) -> Certificates:
        return read_secret(self.get(SECRETS, SECRET_KEY))

    def published_bundles(self) -> set[str]:
        """The CA bundles of all webhooks in both configurations."""
        bundles = set[str]()
        for kind in CONFIGURATION_KINDS:
            configuration = self.get(kind, CONFIGURATION_KEY) or {}
            for webhook in configuration["webhooks"]:
                encoded = webhook["clientConfig"].get("caBundle", "")
                bundles.add(base64.b64decode(encoded).decode())
        return bundles


@asynccontextmanager
async def run_replica(
    server: CertificateServer, clock: Clock
) -> AsyncIterator[tuple[CertificateKeeper, ssl.SSLContext]]:
    """A keeper whose caches follow the server. The test calls `reconcile`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    async with server.client("cede-webhook") as client, asyncio.TaskGroup() as tasks:
        keeper = CertificateKeeper(client, context, server.changed.set, clock)
        watches = [tasks.create_task(cache.run()) for cache in keeper.caches]
        for cache in keeper.caches:
            await cache.synced.wait()
        yield keeper, context
        for watch in watches:
            watch.cancel()


async def wait_until_synced(server: CertificateServer, *keepers: CertificateKeeper) -> None:
    """Returns when the keepers' caches hold what the server holds."""
    async with asyncio.timeout(5):
        for keeper in keepers:
            while not _is_synced(server, keeper):
                server.changed.clear()
                await server.changed.wait()


def _is_synced(server: CertificateServer, keeper: CertificateKeeper) -> bool:
    caches = [(SECRETS, SECRET_KEY, keeper.secret)]
    caches += [(kind, CONFIGURATION_KEY, cache) for kind, cache in keeper.configurations.items()]
    return all(
        _version(cache.get(key)) == _version(server.get(kind, key)) for kind, key, cache in caches
    )


def _version(obj: Json | None) -> str:
    return obj["metadata"]["resourceVersion"] if obj else ""


async def settle(server: CertificateServer, *keepers: CertificateKeeper) -> None:
    """Runs passes of all keepers at once, until none of them writes any more."""
    for _ in range(MAX_PASSES):
        writes_before = len(server.writes())
        await asyncio.gather(*(keeper.reconcile() for keeper in keepers))
        await wait_until_synced(server, *keepers)
        if len(server.writes()) == writes_before:
            return
    raise AssertionError(f"the keepers write again and again: {server.writes()}")
