"""Our own CA: what is issued is sound, and no rotation, loss or race leaves a moment without
trust."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from cryptography import x509

from cede.api.objects import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json
from tests.fakes.api_server import ApiServer
from webhook.certificates.keeper import (
    CONFIGURATION,
    HOSTS,
    SECRET,
    Keeper,
    issue_ca,
    issue_leaf,
    load,
    read,
    secret_data,
)
from webhook.certificates.rotation import CA_LIFE_S, DAY_S, SETTLE_S, Held

NOW = 1_800_000_000.0
CA = issue_ca(NOW)
LEAF = issue_leaf(CA, NOW)
HELD = Held(CA, LEAF)


def handshake(leaf_context: ssl.SSLContext, trusted: str, host: str = HOSTS[0]) -> None:
    """A TLS handshake in memory, as strict as an API server's. Raises ssl.SSLError."""
    client_context = ssl.create_default_context(cadata=trusted)
    client_context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = leaf_context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


def serving(held: Held) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    assert held.leaf
    load(context, held.leaf)
    return context


def fresh() -> Held:
    """As issued today: OpenSSL looks at the real clock."""
    import time

    ca = issue_ca(time.time())
    return Held(ca, issue_leaf(ca, time.time()))


# --- what is issued -------------------------------------------------------------------------------
@pytest.mark.parametrize("host", HOSTS)
def test_a_strict_client_that_trusts_the_bundle_accepts_the_certificate(host: str) -> None:
    held = fresh()
    handshake(serving(held), held.bundle, host)


def test_and_no_other_host_and_no_other_ca() -> None:
    held = fresh()
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(serving(held), held.bundle, "cede-webhook.other.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(serving(held), fresh().bundle)


def test_a_new_certificate_is_served_by_the_live_context() -> None:
    old = fresh()
    new = fresh()
    context = serving(old)
    assert new.leaf
    load(context, new.leaf)
    handshake(context, new.bundle)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, old.bundle)


def test_the_certificate_does_not_outlive_its_ca_and_is_valid_on_a_slow_clock() -> None:
    late = issue_leaf(CA, CA.ends - DAY_S)
    assert late.ends == CA.ends
    begins = x509.load_pem_x509_certificate(
        LEAF.certificate.encode()
    ).not_valid_before_utc.timestamp()
    assert begins <= NOW - 1800


# --- what the Secret holds ------------------------------------------------------------------------
def test_the_secret_gives_back_what_was_put_in() -> None:
    held = Held(CA, LEAF, issue_ca(NOW), CA.certificate)
    assert read({"data": secret_data(held)}) == held


@pytest.mark.parametrize(
    ("broken", "left"),
    [
        pytest.param(None, Held(), id="no Secret"),
        pytest.param({}, Held(), id="empty"),
        pytest.param({"data": None}, Held(), id="no data"),
        pytest.param({"data": {"ca.crt": "!", "tls.crt": "bm90IFBFTQ=="}}, Held(), id="rubbish"),
        pytest.param(
            {"data": secret_data(Held(CA, LEAF)) | {"ca.key": ""}}, Held(), id="no key of the CA"
        ),
        pytest.param(
            {"data": secret_data(Held(CA, issue_leaf(issue_ca(NOW), NOW)))},
            Held(CA),
            id="another CA's certificate",
        ),
        pytest.param(
            {"data": secret_data(Held(CA, replace(LEAF, key=CA.key)))}, Held(CA), id="another key"
        ),
        pytest.param(
            {"data": secret_data(Held(CA, issue_leaf(CA, NOW, ("old.name.svc",))))},
            Held(CA),
            id="another name",
        ),
        pytest.param(
            {"data": secret_data(HELD) | {"previous-ca.crt": "bm8="}},
            HELD,
            id="a previous CA that is none",
        ),
    ],
)
def test_what_does_not_fit_together_is_as_good_as_missing(broken: Json | None, left: Held) -> None:
    assert read(broken) == left


# --- the whole, against an API server -------------------------------------------------------------
class Watched(ApiServer):
    """Tells when a cache of ours has heard something."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = asyncio.Event()

    async def __aenter__(self) -> "Watched":
        await super().__aenter__()
        return self


class Clock:
    def __init__(self) -> None:
        import time

        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def replica(server: Watched, clock: Clock) -> AsyncIterator[tuple[Keeper, ssl.SSLContext]]:
    """A running Keeper whose caches follow the server; its passes are ours to call."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    async with server.client("cede-webhook") as client, asyncio.TaskGroup() as tasks:
        keeper = Keeper(client, context, server.changed.set, clock)
        running = [tasks.create_task(cache.run()) for cache in keeper.caches]
        for cache in keeper.caches:
            await cache.synced.wait()
        yield keeper, context
        for task in running:
            task.cancel()


def configure(server: Watched) -> None:
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        hooks = [
            {"name": name, "clientConfig": {"service": {"name": "cede-webhook"}}}
            for name in ("jobs.cede.dev", "elastic.cede.dev")
        ]
        server.put(kind, {"metadata": {"name": CONFIGURATION[1]}, "webhooks": hooks})


def published(server: Watched) -> set[str]:
    """The bundles of all hooks of all configurations."""
    found = [
        server.get(kind, CONFIGURATION) or {} for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
    ]
    return {
        base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()
        for each in found
        for hook in each["webhooks"]
    }


async def heard(server: Watched, *keepers: Keeper) -> None:
    """Until the caches hold what the server holds."""
    async with asyncio.timeout(5):
        for keeper in keepers:
            while not _up_to_date(server, keeper):
                server.changed.clear()
                await server.changed.wait()


def _up_to_date(server: Watched, keeper: Keeper) -> bool:
    caches = [
        (SECRETS, SECRET, keeper.secret),
        *((kind, CONFIGURATION, cache) for kind, cache in keeper.configurations.items()),
    ]
    return all(
        _version(cache.get(key)) == _version(server.get(kind, key)) for kind, key, cache in caches
    )


def _version(found: Json | None) -> str:
    return found["metadata"]["resourceVersion"] if found else ""


async def settle(server: Watched, *keepers: Keeper) -> None:
    """Passes of all, at once, until none writes any more."""
    for _ in range(12):
        before = len(server.writes())
        await asyncio.gather(*(keeper.reconcile() for keeper in keepers))
        await heard(server, *keepers)
        if len(server.writes()) == before:
            return
    raise AssertionError(f"it never comes to rest: {server.writes()}")


def held_by(server: Watched) -> Held:
    return read(server.get(SECRETS, SECRET))


async def test_from_nothing_a_certificate_is_issued_served_and_trusted() -> None:
    async with Watched() as server:
        configure(server)
        async with replica(server, Clock()) as (keeper, context):
            assert not keeper.serves
            await settle(server, keeper)
            assert keeper.serves
            assert published(server) == {held_by(server).bundle}
            handshake(context, held_by(server).bundle)
            quiet = len(server.writes())
            await keeper.reconcile()
            assert len(server.writes()) == quiet


async def test_two_replicas_at_once_agree_on_one_certificate() -> None:
    async with Watched() as server:
        configure(server)
        async with (
            replica(server, clock := Clock()) as (one, first),
            replica(server, clock) as (two, second),
        ):
            await settle(server, one, two)
            for context in (first, second):
                handshake(context, held_by(server).bundle)
            assert published(server) == {held_by(server).bundle}


async def test_a_deleted_secret_comes_back_as_it_was() -> None:
    async with Watched() as server:
        configure(server)
        async with replica(server, Clock()) as (keeper, _):
            await settle(server, keeper)
            before = held_by(server)
            server.remove(SECRETS, SECRET)
            await heard(server, keeper)
            await settle(server, keeper)
            assert held_by(server) == before


async def test_a_bundle_reset_by_hand_is_healed_in_every_hook() -> None:
    async with Watched() as server:
        configure(server)
        async with replica(server, Clock()) as (keeper, _):
            await settle(server, keeper)
            configure(server)
            await heard(server, keeper)
            await settle(server, keeper)
            assert published(server) == {held_by(server).bundle}


async def test_a_spoilt_secret_is_written_anew_and_the_old_certificate_served_meanwhile() -> None:
    async with Watched() as server:
        configure(server)
        async with replica(server, Clock()) as (keeper, context):
            await settle(server, keeper)
            before = held_by(server)
            server.put(
                SECRETS,
                {
                    "metadata": {"name": SECRET[1], "namespace": SECRET[0]},
                    "data": {"tls.crt": "cnViYmlzaA=="},
                },
            )
            await heard(server, keeper)
            handshake(context, before.bundle)
            await settle(server, keeper)
            assert held_by(server) == before


async def test_through_a_whole_rotation_of_the_ca_every_replica_is_trusted_at_every_step() -> None:
    async with Watched() as server:
        configure(server)
        async with (
            replica(server, clock := Clock()) as (one, first),
            replica(server, clock) as (two, second),
        ):
            await settle(server, one, two)
            old = held_by(server)
            began = clock.now
            assert old.ca
            clock.now = began + CA_LIFE_S * 0.67
            seen: list[Held] = []
            for _ in range(14):
                await one.reconcile()
                await heard(server, one, two)
                # two serves what it last loaded: it lags behind
                for keeper in (one, two):
                    assert keeper._good.leaf
                    signer = x509.load_pem_x509_certificate(keeper._good.leaf.certificate.encode())
                    trusted = [
                        x509.load_pem_x509_certificates(bundle.encode())
                        for bundle in published(server)
                    ]
                    assert all(any(_issued(signer, ca) for ca in bundle) for bundle in trusted)
                if held_by(server) not in seen:
                    seen.append(held_by(server))
                clock.now += SETTLE_S / 2
                await two.reconcile()
                await heard(server, one, two)
            new = held_by(server)
            assert new.ca != old.ca
            assert not new.previous_ca
            assert published(server) == {new.bundle}
            assert first is not second


def _issued(leaf: x509.Certificate, ca: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        leaf.verify_directly_issued_by(ca)
    except (ValueError, InvalidSignature):
        return False
    return True
