"""Candidates for a Lease with client-go's times.

The clock runs thirty times as fast; sockets are real.
"""

import asyncio
from collections.abc import Awaitable, Callable

from cede.api.objects import LEASES, Json, Key
from cede.kube import lease as leases
from cede.kube.client import Client
from cede.kube.lease import Times
from cede.kube.progress import Progress
from tests.fakes.api_server import ApiServer
from tests.harness.fast_loop import fast

KEY = ("cede-system", "cede-scheduler")
PATH = LEASES.path(KEY)
TIMES = Times()
# seconds of the fast clock, 0.2 real ones: how late a busy machine may be
TOLERANCE_S = 6.0


def clock() -> float:
    return asyncio.get_running_loop().time()


async def lead(
    client: Client,
    key: Key,
    identity: str,
    work: Callable[[], Awaitable[None]],
    *,
    progress: Progress | None = None,
    leading: Callable[[bool], None] = lambda _: None,
) -> None:
    """By default the work makes progress."""
    endless = Progress(limit_s=float("inf"))
    await leases.lead(client, key, identity, work, progress=progress or endless, leading=leading)


def lease(holder: str, turn: int = 0, renewed: str = "2020-01-01T00:00:00.000000Z") -> Json:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": renewed,
        "acquireTime": renewed,
        "leaseTransitions": 3,
    }
    return {
        "metadata": {"name": KEY[1], "namespace": KEY[0], "annotations": {"turn": str(turn)}},
        "spec": spec,
    }


class Work:
    """Work that runs until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.ended = asyncio.Event()
        # on the fast clock
        self.started_at = 0.0

    async def __call__(self) -> None:
        self.started_at = clock()
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def spec(server: ApiServer) -> Json:
    stored = server.get(LEASES, KEY)
    assert stored is not None
    return dict(stored["spec"])


def run_fast(test: Callable[[ApiServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with ApiServer() as server:
            await test(server)

    fast(run())
