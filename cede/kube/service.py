"""A controller as a process: its flags, its logs, its end, its health, its lead, its loop."""

import argparse
import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from cede.api import names
from cede.kube import health, lease, logs, loop
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.connection import connect


@dataclass(frozen=True)
class Flags:
    # who we are in the lease
    identity: str
    kubeconfig: str | None
    # of health and metrics
    port: int
    log_level: str


def add_flags(parser: argparse.ArgumentParser, identity: str) -> None:
    """The flags every controller has."""
    parser.add_argument("--identity", default=identity, help="who we are in the lease")
    parser.add_argument("--kubeconfig", help="used outside a cluster; else the standard places")
    parser.add_argument("--port", type=int, default=8080, help="of /healthz, /readyz and /metrics")
    parser.add_argument("--log-level", default="INFO")


def read_flags(found: argparse.Namespace) -> Flags:
    return Flags(found.identity, found.kubeconfig, found.port, found.log_level)


async def run_as_leader(
    chosen: Flags, manager: str, lease_name: str, work: Callable[[Client], Awaitable[None]]
) -> None:
    """Works for as long as we lead, until told to end. Raises LostLease when another may lead."""
    logs.setup(chosen.log_level)
    # a pass makes objects by the hundred thousand and no cycles: by default half of it is
    # collecting
    gc.set_threshold(100_000, 50, 50)
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    async with (
        connect(manager=manager, kubeconfig=chosen.kubeconfig) as client,
        health.serve(chosen.port, lambda: True),
    ):
        await lease.lead(
            client, (names.SYSTEM_NAMESPACE, lease_name), chosen.identity, lambda: work(client)
        )


class Controller(Protocol):
    """What looks, decides and acts."""

    wake: asyncio.Event

    @property
    def caches(self) -> Iterable[Cache[Any]]: ...
    async def reconcile(self) -> float: ...


async def run_controller(controller: Controller, *, after: Iterable[Cache[Any]] = ()) -> None:
    """Pass after pass, for ever; the first once the caches `after` have been heard."""
    async with asyncio.TaskGroup() as tasks:
        for cache in controller.caches:
            tasks.create_task(cache.run())
        for cache in after:
            await cache.synced.wait()
        await loop.run(controller.reconcile, controller.wake)
