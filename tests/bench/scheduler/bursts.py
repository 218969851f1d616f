"""Times the writes of one pass that shrinks many jobs, to an API server in a process of its own.

The server is the fake of the tests: most of the time is its own. The same requests, sent one after
the other on one connection, are measured beside it.
"""

import asyncio
import time
from multiprocessing.connection import Connection

import aiohttp
from kubernetes.aio.client.configuration import Configuration

from cede.api.kueue import Job
from cede.api.objects import JOBS, Json, Key
from cede.kube.client import HttpClient
from scheduler.actions import ResizeJob
from scheduler.apply import Applier
from scheduler.runtime_client import RuntimeClient
from tests.bench.server_process import running
from tests.fakes.api_server import ApiServer
from tests.fakes.runtime import ROOT_KEY

JOB_COUNT = 300
SIZE = 8


class TimedClient(HttpClient):
    """Knows when the last patch was answered."""

    last = 0.0

    async def patch(self, *args: object, **options: object) -> Json:
        answer = await super().patch(*args, **options)  # type: ignore[arg-type]
        self.last = time.perf_counter()
        return answer


def serve(sender: Connection) -> None:
    """Sends its address, and serves until the process is terminated."""

    async def run() -> None:
        async with ApiServer() as server:
            for number in range(JOB_COUNT):
                metadata = {"namespace": "research", "name": f"job-{number}"}
                spec = {"parallelism": SIZE, "completions": SIZE}
                server.put(JOBS, {"metadata": metadata, "spec": spec})
            sender.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(run())


async def _versions(client: HttpClient) -> dict[Key, str]:
    jobs, _ = await client.list(JOBS, Job)
    return {job.metadata.key: job.metadata.resourceVersion for job in jobs}


async def _shrink_all(client: TimedClient) -> float:
    actions = [
        ResizeJob(key, "u", version, SIZE // 2, True, "for a claim", False)
        for key, version in (await _versions(client)).items()
    ]
    async with RuntimeClient(lambda: (ROOT_KEY,), lambda: None) as runtimes:
        applier = Applier(client, runtimes, time.time)
        start = time.perf_counter()
        await applier.apply(actions)
    jobs, _ = await client.list(JOBS, Job)
    assert [job.spec.parallelism for job in jobs] == [SIZE // 2] * JOB_COUNT
    return 1000 * (client.last - start)


async def _one_by_one(client: TimedClient) -> float:
    keys = list(await _versions(client))
    body: Json = {"spec": {"parallelism": SIZE, "completions": SIZE}}
    start = time.perf_counter()
    for key in keys:
        await client.patch(JOBS, key, body)
    return 1000 * (client.last - start)


async def _measure(times: int) -> tuple[list[float], list[float]]:
    bursts, singles = list[float](), list[float]()
    with running(serve) as url:
        async with aiohttp.ClientSession() as session:
            client = TimedClient(session, Configuration(host=url), "bench")
            for _ in range(times):
                bursts.append(await _shrink_all(client))
                singles.append(await _one_by_one(client))
    return bursts, singles


def measure(times: int) -> tuple[list[float], list[float]]:
    """Milliseconds until the last job is shrunk, and for as many patches one after the other."""
    return asyncio.run(_measure(times))
