"""Latency of the webhook and of a handler that only allows: `python -m tests.bench.webhook`.

Each server is a process of its own on one core; the load comes from the other cores: a fixed rate
of requests on 16 connections, each with a Job that becomes elastic. A latency counts from the time
at which the request was due, so a stall counts for every request that it delays.
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

from cede.api.certificates import KeyPair
from cede.kube.webhook_secret import HOSTS
from quota_controller.certificates.issue import issue_ca, issue_leaf
from tests.builders.jobs import TEAM, elastic_job, make_review
from webhook.connections import Connections
from webhook.review_body import MAX_BODY_BYTES
from webhook.server import MUTATE, create_app
from webhook.serving_certificate import load_certificate

CONNECTIONS = 16
GOAL_P99_MS = 5.0
AppFactory = Callable[[], web.Application]


# --- the servers ----------------------------------------------------------------------------------
async def allow(request: web.Request) -> web.Response:
    """The least that a webhook can do: reads the review and allows it."""
    review = json.loads(await request.read())["request"]
    answer = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review["uid"], "allowed": True},
    }
    return web.json_response(answer)


def create_bare_app() -> web.Application:
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes([web.post(MUTATE, allow)])
    return app


def create_webhook_app() -> web.Application:
    return create_app(lambda namespace: TEAM, Connections())


def serve(make_app: AppFactory, ca: KeyPair, port_sender: Connection) -> None:
    """Sends its port, and serves on one core until the process is terminated."""
    os.sched_setaffinity(0, {0})

    async def run() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load_certificate(context, issue_leaf(ca, time.time()))
        runner = web.AppRunner(make_app(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        port_sender.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    with suppress(KeyboardInterrupt):
        asyncio.run(run())


# --- the load -------------------------------------------------------------------------------------
class Load:
    """A fixed rate of requests over several connections."""

    def __init__(self, body: bytes, rate: int, seconds: float) -> None:
        head = (
            f"POST {MUTATE}?timeout=5s HTTP/1.1\r\nHost: {HOSTS[0]}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.request = head.encode() + body
        self.rate = rate
        self.count = int(rate * seconds)
        self.latencies_ms = list[float]()

    async def run(self, port: int, ca: KeyPair) -> list[float]:
        """Milliseconds from the time at which each request was due to the end of its answer."""
        trust = ssl.create_default_context(cadata=ca.certificate)
        connections = [
            await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=HOSTS[0])
            for _ in range(CONNECTIONS)
        ]
        # warm up
        await asyncio.gather(*(self._send(reader, writer) for reader, writer in connections))
        start = time.perf_counter() + 0.05
        await asyncio.gather(
            *(
                self._send_share(index, start, reader, writer)
                for index, (reader, writer) in enumerate(connections)
            )
        )
        for _, writer in connections:
            writer.close()
        return self.latencies_ms

    async def _send_share(
        self, index: int, start: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Every 16th request, beginning with the one at `index`."""
        for number in range(index, self.count, CONNECTIONS):
            due = start + number / self.rate
            wait_s = due - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            await self._send(reader, writer)
            self.latencies_ms.append((time.perf_counter() - due) * 1000)

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        assert b'"allowed": true' in body, body


def measure(make_app: AppFactory, body: bytes, rate: int, seconds: float) -> list[float]:
    ca = issue_ca(time.time())
    port_receiver, port_sender = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=(make_app, ca, port_sender), daemon=True
    )
    server.start()
    try:
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {0} or {0})
        return asyncio.run(Load(body, rate, seconds).run(port_receiver.recv(), ca))
    finally:
        server.terminate()
        server.join()


# --- the report -----------------------------------------------------------------------------------
def quantile(values: list[float], fraction: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * fraction))]


def format_spread(values: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.webhook", description=__doc__)
    parser.add_argument("--rate", type=int, default=500, help="requests per second")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of a run")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    factories: dict[str, AppFactory] = {"webhook": create_webhook_app, "bare": create_bare_app}
    p50: dict[str, list[float]] = {name: [] for name in factories}
    p99: dict[str, list[float]] = {name: [] for name in factories}
    body = json.dumps(make_review(elastic_job(8, "2-8"))).encode()
    for run in range(args.runs):
        for name, make_app in factories.items():
            latencies_ms = measure(make_app, body, args.rate, args.seconds)
            p50[name].append(quantile(latencies_ms, 0.5))
            p99[name].append(quantile(latencies_ms, 0.99))
            print(
                f"run {run + 1} {name:8} p50 {p50[name][-1]:.2f} ms, p99 {p99[name][-1]:.2f} ms, "
                f"{len(latencies_ms)} requests",
                flush=True,
            )
    ratios = [ours / bare for ours, bare in zip(p99["webhook"], p99["bare"], strict=True)]
    print(
        f"\n{args.rate}/s, {CONNECTIONS} connections, TLS, {len(body)} bytes; median of "
        f"{args.runs} runs (least–most), ms"
    )
    for name in factories:
        print(f"  {name:8} p50 {format_spread(p50[name])}   p99 {format_spread(p99[name])}")
    print(f"  p99 / p99 of the bare handler {format_spread(ratios)}; goal: p99 ≤ {GOAL_P99_MS} ms")
    return 0 if statistics.median(p99["webhook"]) <= GOAL_P99_MS else 1


if __name__ == "__main__":
    sys.exit(main())
