"""How fast the webhook answers over TLS, beside a handler that only allows: `python -m
tests.bench.webhook`.

Each is a process of its own on one core; the load comes from the other: so many requests a second
on 16 connections, a Job to be made
elastic each time. A latency is counted from when the request was due, so that a stall counts for
all it delays.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from aiohttp import web

from tests.unit.webhook.test_rules import TEAM, a_job
from tests.unit.webhook.test_server import review
from webhook.certificates.keeper import HOSTS, issue_ca, issue_leaf, load
from webhook.certificates.rotation import Pair
from webhook.server import BODY_LIMIT, MUTATE, application

CONNECTIONS = 16
PROMISED_MS = 5.0


async def allows(request: web.Request) -> web.Response:
    """The least that answers: reads the review, allows it."""
    asked = json.loads(await request.read())["request"]
    answer = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": asked["uid"], "allowed": True},
    }
    return web.json_response(answer)


def bare() -> web.Application:
    app = web.Application(client_max_size=BODY_LIMIT)
    app.add_routes([web.post(MUTATE, allows)])
    return app


def ours() -> web.Application:
    return application(lambda namespace: TEAM)


def serve(make: Callable[[], web.Application], ca: Pair, tell: Connection) -> None:
    """Answers on one core until it is ended; tells its port."""
    os.sched_setaffinity(0, {0})

    async def run() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load(context, issue_leaf(ca, time.time()))
        runner = web.AppRunner(make(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        tell.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(run())


async def ask(port: int, ca: Pair, body: bytes, rate: int, seconds: float) -> list[float]:
    """Milliseconds from when each request was due until its answer was read. Each connection has
    every 16th request."""
    trust = ssl.create_default_context(cadata=ca.certificate)
    head = (
        f"POST {MUTATE}?timeout=5s HTTP/1.1\r\nHost: {HOSTS[0]}\r\nContent-Type: "
        f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    took = list[float]()
    open_ = [
        await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=HOSTS[0])
        for _ in range(CONNECTIONS)
    ]

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(request)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert answer.startswith(b"http/1.1 200"), answer
        said = await reader.readexactly(int(answer.split(b"content-length: ")[1].split(b"\r\n")[0]))
        assert b'"allowed": true' in said, said

    async def keep_asking(
        number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for turn in range(number, int(rate * seconds), CONNECTIONS):
            due = began + turn / rate
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            await one(reader, writer)
            took.append((time.perf_counter() - due) * 1000)

    # warm
    await asyncio.gather(*(one(*each) for each in open_))
    began = time.perf_counter() + 0.05
    await asyncio.gather(*(keep_asking(number, *each) for number, each in enumerate(open_)))
    for _, writer in open_:
        writer.close()
    return took


def measure(
    make: Callable[[], web.Application], body: bytes, rate: int, seconds: float
) -> list[float]:
    ca = issue_ca(time.time())
    mine, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=(make, ca, theirs), daemon=True
    )
    server.start()
    try:
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {0} or {0})
        return asyncio.run(ask(mine.recv(), ca, body, rate, seconds))
    finally:
        server.terminate()
        server.join()


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.webhook", description=__doc__)
    parser.add_argument("--rate", type=int, default=500, help="requests a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    p99: dict[str, list[float]] = {"webhook": [], "bare": []}
    p50: dict[str, list[float]] = {"webhook": [], "bare": []}
    body = json.dumps(review(a_job(8, "2-8"))).encode()
    for run in range(args.runs):
        for name, make in (("webhook", ours), ("bare", bare)):
            took = measure(make, body, args.rate, args.seconds)
            p50[name].append(quantile(took, 0.5))
            p99[name].append(quantile(took, 0.99))
            print(
                (
                    f"run {run + 1} {name:8} p50 {p50[name][-1]:.2f} ms, p99 {p99[name][-1]:.2f} "
                    f"ms, "
                    f"{len(took)} requests"
                ),
                flush=True,
            )
    ratio = [a / b for a, b in zip(p99["webhook"], p99["bare"], strict=True)]
    print(
        f"\n{args.rate}/s, {CONNECTIONS} connections, TLS, {len(body)} bytes; median of "
        f"{args.runs} (least–most), ms"
    )
    for name in p99:
        print(f"  {name:8} p50 {spread(p50[name])}   p99 {spread(p99[name])}")
    print(f"  p99 against the bare handler {spread(ratio)} times; promised: p99 ≤ {PROMISED_MS} ms")
    return 0 if statistics.median(p99["webhook"]) <= PROMISED_MS else 1


if __name__ == "__main__":
    sys.exit(main())
