"""Events of pods at a fixed rate, while the scheduler plans and polls runtimes.

A server in a process of its own lists the pods of a cluster and then changes them at the given
rate. The scheduler's process keeps its copy by list and watch, computes pass after pass on it, and
polls runtimes, as the controller does.

`python -m tests.bench.scheduler.watch_events WORKLOADS [--rate R] [--seconds S]` prints one JSON
object.
"""

import argparse
import asyncio
import gc
import json
import time
from multiprocessing.connection import Connection

import aiohttp
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from cede.api.kueue import Pod
from cede.api.objects import PODS, Json
from cede.kube.cache import Cache
from cede.kube.client import HttpClient
from cede.kube.service import GC_THRESHOLDS
from tests.bench.scheduler import answers, pictures
from tests.bench.scheduler.passes import FakeCluster
from tests.bench.scheduler.pictures import SIZES, Size
from tests.bench.server_process import running

BATCH_S = 0.01
FIRST_VERSION = 1000
PAGE = 500
ARRIVAL_S = 0.2
"""Between two looks whether the last event has arrived."""
LIMIT_S = 60.0
"""For the last events to arrive, after the last was sent."""


# --- the server -----------------------------------------------------------------------------------
class Pods:
    """The pods of a cluster, and one watch of them."""

    def __init__(self, size: Size, rate: int, seconds: float) -> None:
        self._bodies = [obj for name, obj in pictures.objects(size, "full") if name == "pods"]
        self._rate = rate
        self._seconds = seconds
        # set when a client has its copy and wants events
        self.may_begin = asyncio.Event()

    async def list(self, request: web.Request) -> web.Response:
        start = int(request.query.get("continue", "0"))
        items = self._bodies[start : start + PAGE]
        after = start + PAGE
        metadata = {"resourceVersion": str(FIRST_VERSION)}
        if after < len(self._bodies):
            metadata["continue"] = str(after)
        return web.json_response({"metadata": metadata, "items": items})

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """Every event that is due, 100 times a second; then silence."""
        response = web.StreamResponse()
        await response.prepare(request)
        await self.may_begin.wait()
        lines = [_event_parts(body) for body in self._bodies]
        start = time.monotonic()
        sent, total = 0, int(self._rate * self._seconds)
        while sent < total:
            due = min(total, int(self._rate * (time.monotonic() - start)))
            events = [_event(lines[n % len(lines)], n) for n in range(sent, due)]
            await response.write(b"".join(events))
            sent = due
            await asyncio.sleep(BATCH_S)
        await asyncio.Event().wait()
        return response

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            self.may_begin.set()
            return web.json_response({})
        return await (self.watch if "watch" in request.query else self.list)(request)


def _event_parts(body: Json) -> tuple[bytes, bytes]:
    """The event of a changed pod, before and after its resourceVersion."""
    changed = {**body, "metadata": {**body["metadata"], "resourceVersion": "@"}}
    line = json.dumps({"type": "MODIFIED", "object": changed}).encode() + b"\n"
    before, _, after = line.partition(b'"@"')
    return before, after


def _event(parts: tuple[bytes, bytes], number: int) -> bytes:
    before, after = parts
    return b'%b"%d"%b' % (before, FIRST_VERSION + 1 + number, after)


def serve(sender: Connection, size: Size, rate: int, seconds: float) -> None:
    """Sends its port, and serves until the process is terminated."""

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", Pods(size, rate, seconds).handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        sender.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


# --- the scheduler --------------------------------------------------------------------------------
async def _measure(url: str, size: Size, rate: int, seconds: float) -> dict[str, object]:
    cluster = FakeCluster(size, "full")
    last = str(FIRST_VERSION + int(rate * seconds))
    async with aiohttp.ClientSession(read_bufsize=1 << 21) as session:
        pods = Cache(HttpClient(session, Configuration(host=url), "bench"), PODS, Pod)
        copying = asyncio.create_task(pods.run())
        await pods.synced.wait()

        def run_pass() -> None:
            cluster.fields["pods"] = pods.all()
            cluster.run_pass()

        run_pass()
        cluster.timings.clear()
        with answers.runtimes() as endpoints:
            async with session.post(url + PODS.path()) as response:
                response.raise_for_status()
            start = time.monotonic()
            arrival = asyncio.create_task(_arrival(pods, last, start + seconds + LIMIT_S))
            lost, pause_ms = await answers.measure(endpoints, run_pass, seconds)
            behind_s = await arrival - start - seconds
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)
    return {
        "pods": len(pods.all()),
        "events": int(rate * seconds),
        "passes": len(cluster.timings),
        "behind_s": round(max(0.0, behind_s), 2),
        "answers_lost": lost,
        "loop_max_ms": round(pause_ms),
    }


async def _arrival(pods: Cache[Pod], version: str, limit: float) -> float:
    """When the event of this version is in the copy."""
    while not any(pod.metadata.resourceVersion == version for pod in pods.all()):
        if time.monotonic() > limit:
            raise TimeoutError(f"event {version} did not arrive within {LIMIT_S:g} s")
        await asyncio.sleep(ARRIVAL_S)
    return time.monotonic()


def measure(size: Size, rate: int, seconds: float) -> dict[str, object]:
    """How far the copy is behind when the last event has been sent, and the answers lost."""
    gc.set_threshold(*GC_THRESHOLDS)
    with running(serve, size, rate, seconds) as port:
        return asyncio.run(_measure(f"http://127.0.0.1:{port}", size, rate, seconds))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler.watch_events")
    parser.add_argument("workloads", type=int, choices=[size.workloads for size in SIZES])
    parser.add_argument("--rate", type=int, default=5000, help="events a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    [size] = [size for size in SIZES if size.workloads == options.workloads]
    print(json.dumps(measure(size, options.rate, options.seconds)))


if __name__ == "__main__":
    main()
