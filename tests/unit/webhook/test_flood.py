"""A flood of connections and of large reviews, at the limits of a real webhook process."""

import asyncio
import json
import multiprocessing
import re
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
import yaml

from cede.api.resources import amount
from cede.kube.webhook_secret import HOSTS
from tests.builders.jobs import make_review, plain_job
from tests.fakes.kubeconfig import kubeconfig
from tests.harness.certificates import CertificateServer, client_context, fresh_certificates
from tests.harness.page_reader import free_ports
from tests.marks import LONG
from tests.paths import TREE
from webhook.review_body import MAX_BODY_BYTES, MAX_VALUES, SMALL_BODY_BYTES
from webhook.server import MUTATE, VALIDATE

pytestmark = [pytest.mark.processes, LONG]
PEERS = 3000
AT_ONCE = 100
LARGE_REVIEWS = 50
ENOUGH_S = 600.0
MOST_S = 1.0
"""In which 99 of 100 reviews are answered."""
REVIEW = json.dumps(make_review(plain_job())).encode()
HEAD = f"POST {VALIDATE} HTTP/1.1\r\nHost: {HOSTS[0]}\r\nContent-Length: ".encode()
COMPLETE = HEAD + b"%d\r\n\r\n%b" % (len(REVIEW), REVIEW)
HALF = HEAD + b"%d\r\n\r\n%b" % (SMALL_BODY_BYTES, bytes(SMALL_BODY_BYTES - 1))


async def test_a_flood_fits_into_the_memory_of_the_webhook_and_reviews_are_answered(
    tmp_path: Path,
) -> None:
    certificates = fresh_certificates()
    port, health_port = free_ports(2)
    async with asyncio.timeout(ENOUGH_S), CertificateServer() as server:
        server.put_certificates(certificates)
        async with webhook(server, tmp_path, port, health_port) as process:
            before = peak_memory(process.pid)
            report = await send_reviews_in_a_flood(port, certificates.bundle)
            peak = peak_memory(process.pid)
    print(f"\nmemory {before >> 20} MiB, in the flood {peak >> 20} of {memory_limit() >> 20} MiB")
    print(report)
    assert peak < memory_limit()


async def send_reviews_in_a_flood(port: int, bundle: str) -> str:
    """Each on a connection that was there before is answered, 99 of 100 within a second and as many
    on new connections, and so is a large one. Returns the figures."""
    kept, new = list[float](), Counter[bool]()
    trust = client_context(bundle)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        async with connections(trust) as session, connections(trust, force_close=True) as other:
            assert await is_answered(session, port)
            flood = pool.submit(attack, port, bundle)
            while not flood.done():
                began = time.monotonic()
                assert await is_answered(session, port)
                kept.append(time.monotonic() - began)
                new[await is_answered(other, port)] += 1
                # as many as an API server sends
                await asyncio.sleep(0.02)
    kept.sort()
    connected, statuses = flood.result()
    assert connected > PEERS / 2
    assert kept[int(len(kept) * 0.99)] < MOST_S
    # an API server accepts what it could not ask about
    assert new[False] <= new.total() / 100
    assert 200 in statuses, f"no large review was decided: {statuses}"
    return (
        f"{len(kept)} reviews, median {kept[len(kept) // 2] * 1000:.0f} ms, p99 "
        f"{kept[int(len(kept) * 0.99)] * 1000:.0f} ms; on new connections {new[True]} of "
        f"{new.total()} answered; {connected} peers connected; large reviews by status {statuses}"
    )


@asynccontextmanager
async def webhook(
    server: CertificateServer, directory: Path, port: int, health_port: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m webhook` of an API server, once it is ready."""
    config = kubeconfig(directory / "kubeconfig", server.url)
    flags = ("--kubeconfig", config, "--port", str(port), "--health-port", str(health_port))
    command = (sys.executable, "-m", "webhook", *flags, "--drain-seconds", "0")
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, cwd=TREE, stdout=log, stderr=log)
    try:
        async with aiohttp.ClientSession() as session:
            while not await is_ready(session, health_port):
                assert process.returncode is None, (directory / "log").read_text()
                await asyncio.sleep(0.1)
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def is_ready(session: aiohttp.ClientSession, health_port: int) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{health_port}/readyz") as reply:
            return reply.status == 200
    except aiohttp.ClientError:
        return False


def connections(trust: ssl.SSLContext, *, force_close: bool = False) -> aiohttp.ClientSession:
    """One that is kept, as an API server does it, or a new one for each review."""
    connector = aiohttp.TCPConnector(ssl=trust, limit=1, force_close=force_close)
    return aiohttp.ClientSession(connector=connector)


async def is_answered(session: aiohttp.ClientSession, port: int) -> bool:
    url = f"https://127.0.0.1:{port}{VALIDATE}"
    try:
        async with session.post(url, data=REVIEW, server_hostname=HOSTS[0]) as reply:
            return bool((await reply.json())["response"]["allowed"])
    except aiohttp.ClientError:
        return False


def memory_limit() -> int:
    """Bytes, of the container."""
    text = (TREE / "deploy/base/webhook/deployment.yaml").read_text()
    [container] = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    return amount("memory", container["resources"]["limits"]["memory"])


def peak_memory(pid: int) -> int:
    """Bytes, of this process since its start."""
    status = Path(f"/proc/{pid}/status").read_text()
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(kib) << 10


# --- the attacker, in a process of its own --------------------------------------------------------
class Peer(asyncio.Protocol):
    """Sends something at once, and something else after the first answer."""

    def __init__(self, first: bytes, second: bytes, open_: set[asyncio.Transport]) -> None:
        self._first = first
        self._second = second
        self._open = open_

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(transport)
        transport.write(self._first)

    def data_received(self, _: bytes) -> None:
        self._transport.write(self._second)
        self._second = b""

    def connection_lost(self, _: Exception | None) -> None:
        self._open.discard(self._transport)


KINDS = {
    "no handshake": (b"", b"", False),
    "nothing after the handshake": (b"", b"", True),
    "half of a first review": (HALF, b"", True),
    "half of a second review": (COMPLETE, HALF, True),
}
"""What a peer sends first, what it sends after the answer, and whether it uses TLS."""


def attack(port: int, bundle: str) -> tuple[int, dict[int, int]]:
    """How many peers connected, and the answers to the large reviews by status; 0 is none."""
    return asyncio.run(flood(port, client_context(bundle)))


async def flood(port: int, trust: ssl.SSLContext) -> tuple[int, dict[int, int]]:
    turns = asyncio.Semaphore(AT_ONCE)
    peers = set[asyncio.Transport]()

    async def connect(first: bytes, second: bytes, tls: bool) -> bool:
        async with turns:
            # the webhook may close it in its handshake
            with suppress(OSError):
                await asyncio.get_running_loop().create_connection(
                    lambda: Peer(first, second, peers),
                    "127.0.0.1",
                    port,
                    ssl=trust if tls else None,
                    server_hostname=HOSTS[0] if tls else None,
                )
                return True
        return False

    kinds = list(KINDS.values()) * (PEERS // len(KINDS))
    connected = sum(await asyncio.gather(*(connect(*kind) for kind in kinds)))
    # first all at once, of which few get a turn in time, and then two at a time
    answers = [*await send_large(port, trust, LARGE_REVIEWS, at_once=LARGE_REVIEWS)]
    answers += await send_large(port, trust, LARGE_REVIEWS // 5, at_once=2)
    for transport in list(peers):
        transport.abort()
    return connected, dict(Counter(answers))


async def send_large(port: int, trust: ssl.SSLContext, count: int, at_once: int) -> list[int]:
    """The status of each answer; 0 is none."""
    # of all values of JSON, fields of their own with a number take the most memory
    job = plain_job(unknown={f"f{index}": index + 0.5 for index in range(MAX_VALUES - 100)})
    body = json.dumps(make_review(job), separators=(",", ":")).encode()
    assert SMALL_BODY_BYTES < len(body) <= MAX_BODY_BYTES
    connector = aiohttp.TCPConnector(ssl=trust, limit=at_once)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send() -> int:
            url = f"https://127.0.0.1:{port}{MUTATE}"
            try:
                async with session.post(url, data=body, server_hostname=HOSTS[0]) as reply:
                    response = (await reply.json())["response"]
            except aiohttp.ClientError:
                return 0
            return int(response.get("status", {}).get("code", 200))

        return await asyncio.gather(*(send() for _ in range(count)))
