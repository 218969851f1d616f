"""Runs a controller as a process: flags, logs, signals, health checks, leader election, loop."""

import argparse
import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from aiohttp import web
from prometheus_client import Gauge

from cede.api import names
from cede.api.unreadable import UnreadableObjects, count_unreadable
from cede.kube import health, lease, logs, loop
from cede.kube.cache import Cache, all_synced
from cede.kube.client import Client
from cede.kube.connection import connect, namespace_mistake
from cede.kube.lease import LostLease, Stalled, Times
from cede.kube.progress import Progress

log = logging.getLogger(__name__)
# A pass creates hundreds of thousands of objects and no reference cycles. With Python's default,
# half of its time is spent on garbage collection.
GC_THRESHOLDS = (100_000, 50, 50)
LEADING = Gauge("cede_leading", "1 while this process leads.")
LAST_PASS = Gauge("cede_last_pass_timestamp_seconds", "When the last whole pass ended.")


@dataclass(frozen=True)
class Flags:
    # our name in the lease
    identity: str
    kubeconfig: str | None
    # of health checks and metrics
    port: int
    log_level: str


def add_flags(parser: argparse.ArgumentParser, identity: str) -> None:
    """Adds the flags that every controller has; `identity` is the default."""
    parser.add_argument("--identity", default=identity, help="name of this process in the lease")
    parser.add_argument(
        "--kubeconfig",
        help="kubeconfig file (default: the pod's service account, or the user's kubeconfig)",
    )
    parser.add_argument(
        "--port", type=int, default=8080, help="port of /healthz, /readyz and /metrics"
    )
    parser.add_argument("--log-level", default="INFO")


def read_flags(arguments: argparse.Namespace) -> Flags:
    return Flags(arguments.identity, arguments.kubeconfig, arguments.port, arguments.log_level)


async def run_process(
    flags: Flags, manager: str, work: Callable[[Client], Awaitable[None]]
) -> None:
    """Runs `work` until SIGTERM or SIGINT. `manager` is the field manager of its writes.

    Exits with a sentence in a pod of a namespace in which Cede has no rights.
    """
    if mistake := namespace_mistake(flags.kubeconfig):
        sys.exit(mistake)
    logs.setup(flags.log_level)
    gc.set_threshold(*GC_THRESHOLDS)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with connect(manager=manager, kubeconfig=flags.kubeconfig) as client:
        await work(client)


class Controller(Protocol):
    wake: asyncio.Event

    @property
    def caches(self) -> Iterable[Cache[Any]]: ...

    @property
    def needed_caches(self) -> Iterable[Cache[Any]]:
        """The caches without which no pass is worth anything."""
        ...

    async def reconcile(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Leadership:
    """How a controller leads."""

    lease: str
    # a leader that finishes no pass for so long gives up
    stalled_after_s: float
    times: Times


async def run_replica(
    controller: Controller,
    client: Client,
    flags: Flags,
    leadership: Leadership,
    routes: Iterable[web.RouteDef] = (),
    beside: Collection[Controller] = (),
    began: Callable[[], None] = lambda: None,
) -> None:
    """Keeps the caches, and makes passes while we lead, until cancelled.

    A replica that does not lead is a warm standby: its caches are synced before it may lead. One
    that loses the lease is a standby again. Raises Stalled when we led and finished no pass.
    `routes` are answered beside the health checks, by every replica. The controllers in `beside`
    also make passes while we lead. Whether we are ready and may lead does not depend on their
    caches or their passes. `began` is called each time that we begin to lead, before any pass.
    """
    progress = Progress(leadership.stalled_after_s)
    key = (names.SYSTEM_NAMESPACE, leadership.lease)
    leads = False

    def set_leading(now_leads: bool) -> None:
        nonlocal leads
        leads = now_leads
        LEADING.set(now_leads)
        if now_leads:
            began()

    def is_ready() -> bool:
        is_synced = all(cache.synced.is_set() for cache in controller.needed_caches)
        return is_synced and not (leads and progress.is_stalled)

    def finished() -> None:
        progress.finish_pass()
        LAST_PASS.set(progress.last_pass)

    def unreadable() -> UnreadableObjects:
        reasons = (cache.unreadable.values() for cache in controller.caches)
        return count_unreadable(chain.from_iterable(reasons))

    async def passes() -> None:
        async with asyncio.TaskGroup() as works:
            for other in beside:
                works.create_task(_passes_once_synced(other))
            await loop.run(controller.reconcile, controller.wake, finished=finished)

    async with asyncio.TaskGroup() as tasks, health.serve(flags.port, is_ready, routes=routes):
        for cache in chain.from_iterable(kept.caches for kept in (controller, *beside)):
            tasks.create_task(cache.run())
        await all_synced(controller.needed_caches)
        while True:
            try:
                await lease.lead(
                    client,
                    key,
                    flags.identity,
                    passes,
                    progress=progress,
                    times=leadership.times,
                    leading=set_leading,
                    unreadable=unreadable,
                )
            except Stalled:
                raise
            except LostLease as error:
                log.warning("lease lost", extra={"reason": str(error)})


async def _passes_once_synced(controller: Controller) -> None:
    await all_synced(controller.needed_caches)
    await loop.run(controller.reconcile, controller.wake, name=type(controller).__name__)
