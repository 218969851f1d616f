"""A cache of Jobs against an API server whose watches have faults.

The delays of the real Backoff are recorded and not slept, so tests count requests and measure no
time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cede.api.kueue import Job
from cede.api.objects import JOBS, Json
from cede.kube.backoff import Backoff
from cede.kube.cache import Cache
from tests.fakes.api_server import ApiServer
from tests.fakes.http_messages import Answer


def job(name: str, parallelism: int = 1) -> Json:
    return {"metadata": {"name": name, "namespace": "a"}, "spec": {"parallelism": parallelism}}


@dataclass(frozen=True)
class Recorded(Backoff):
    """Records the delays of the real Backoff, and returns 0."""

    delays: list[float] = field(default_factory=list)

    def seconds(self, failures: int) -> float:
        self.delays.append(super().seconds(failures))
        return 0.0


class RunningCache:
    def __init__(
        self, server: ApiServer, cache: Cache[Job], backoff: Recorded, changed: asyncio.Event
    ) -> None:
        self.server = server
        self.cache = cache
        self.backoff = backoff
        self._changed = changed

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds; checks it after each change."""
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @property
    def requests(self) -> tuple[int, int]:
        """(lists, watches) so far."""
        return self.server.count()["GET"], self.server.count()["WATCH"]


@asynccontextmanager
async def running(*faults: Answer) -> AsyncIterator[RunningCache]:
    """A cache of Jobs. The server has Job `old`, and its first watches have these faults."""
    async with ApiServer() as server, server.client() as client:
        server.put(JOBS, job("old"))
        server.script("WATCH", JOBS.path(), *faults)
        changed = asyncio.Event()
        backoff = Recorded()
        cache = Cache(client, JOBS, Job, changed=changed.set, backoff=backoff)
        task = asyncio.create_task(cache.run())
        try:
            yield RunningCache(server, cache, backoff, changed)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
