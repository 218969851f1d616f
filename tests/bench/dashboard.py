"""What the page of `cede dashboard` costs: `python -m tests.bench.dashboard`.

An API server in memory, in a process of its own, with 100 teams and 10,000 jobs. In the browser, if
there is one: until the first paint, until the rows are there, and one update.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import statistics
import time
import zlib
from multiprocessing.connection import Connection

import aiohttp
from kubernetes.aio.client.configuration import Configuration

from cede.api.objects import JOBS, Json
from cede.dashboard.audience import Audience
from cede.dashboard.feed import Feed
from cede.dashboard.live import Live
from cede.kube.client import HttpClient
from deploy.demo.browser import Browser, chromium, chromium_running, new_page
from tests.builders.shared_cluster import job, put_large_cluster
from tests.fakes.api_server import ApiServer
from tests.harness.page_reader import served, visitor

CHANGES = 10
CHANGED = "team-050/job-0000/Job"
MIB = 1 << 20


def serve(teams: int, jobs_each: int, sender: Connection) -> None:
    """Sends its address, and serves until the process is terminated."""

    async def run() -> None:
        async with ApiServer() as server:
            put_large_cluster(server, teams, jobs_each)
            sender.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(run())


async def resize(client: HttpClient, size: int) -> None:
    body, _ = job("team-050", "job-0000", size, desired=8, sizes="2-8")
    await client.patch(JOBS, ("team-050", "job-0000"), {"spec": body["spec"]})


async def until_complete(feed: Feed) -> None:
    version = 0
    while json.loads(feed.whole())["cluster"]["cluster"]["reading"]:
        async for _ in feed.after(version):
            break
        version = json.loads(feed.whole())["version"]


async def delays_s(client: HttpClient, feed: Feed) -> list[float]:
    """From a change of one job at the API server to its event in the stream."""
    delays = []
    for number in range(CHANGES):
        stream = feed.after(json.loads(feed.whole())["version"])
        began = time.perf_counter()
        await resize(client, 2 + number % 6)
        async for message in stream:
            if CHANGED.encode() in message:
                delays.append(time.perf_counter() - began)
                break
    return delays


async def in_browser(client: HttpClient, address: str) -> Json:
    """Milliseconds; the page is opened once, and one job changes again and again."""
    with chromium_running() as devtools:
        async with new_page(devtools) as page:
            await page.open(address)
            await page.until("document.querySelectorAll('#jobs tbody tr').length === 200")
            rows_ms = await page.evaluate("performance.now()")
            await page.until("performance.getEntriesByName('first-contentful-paint').length")
            paint_ms = await page.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            await page.until("document.getElementById('connection').dataset.state === 'live'")
            updates = [await _update_ms(client, page, 2 + number % 6) for number in range(CHANGES)]
            assert page.errors == []
    return {
        "first_paint_ms": round(paint_ms),
        "rows_shown_ms": round(rows_ms),
        "update_median_ms": round(statistics.median(updates)),
        "update_max_ms": round(max(updates)),
    }


async def _update_ms(client: HttpClient, page: Browser, size: int) -> float:
    await page.evaluate("performance.clearMeasures()")
    await resize(client, size)
    await page.until("performance.getEntriesByName('update').length")
    return float(await page.evaluate("performance.getEntriesByName('update')[0].duration"))


async def measure(url: str) -> Json:
    audience = Audience("bench")
    feed = audience.feed
    configuration = Configuration()
    configuration.host = url
    async with (
        served(visitor(feed)) as address,
        aiohttp.ClientSession(read_bufsize=1 << 21) as session,
    ):
        client = HttpClient(session, configuration, "bench")
        began = time.perf_counter()
        running = asyncio.create_task(Live(client, audience.update).run())
        await until_complete(feed)
        read_s = time.perf_counter() - began
        whole = feed.whole()
        figures: Json = {
            "read_s": round(read_s, 1),
            "page_bytes": len(whole),
            "page_compressed_bytes": len(zlib.compress(whole)),
            "change_to_event_median_s": round(statistics.median(await delays_s(client, feed)), 2),
            "memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB),
        }
        if chromium():
            figures |= await in_browser(client, address)
        running.cancel()
        await asyncio.wait([running])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teams", type=int, default=100)
    parser.add_argument("--jobs-each", type=int, default=100)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(arguments.teams, arguments.jobs_each, sender))
    process.start()
    try:
        print(json.dumps(asyncio.run(measure(receiver.recv())), indent=2))
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    main()
