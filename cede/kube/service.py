"""Runs a controller as a process: flags, logs, signals, health checks, leader election, loop."""

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

# A pass creates hundreds of thousands of objects and no reference cycles. With Python's default,
# half of its time is spent on garbage collection.
GC_THRESHOLDS = (100_000, 50, 50)


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


async def run_as_leader(
    flags: Flags, manager: str, lease_name: str, work: Callable[[Client], Awaitable[None]]
) -> None:
    """Runs `work` while we lead, until SIGTERM or SIGINT. `manager` is the field manager.

    Raises LostLease when another process may lead.
    """
    logs.setup(flags.log_level)
    gc.set_threshold(*GC_THRESHOLDS)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    key = (names.SYSTEM_NAMESPACE, lease_name)
    async with (
        connect(manager=manager, kubeconfig=flags.kubeconfig) as client,
        health.serve(flags.port, lambda: True),
    ):
        await lease.lead(client, key, flags.identity, lambda: work(client))


class Controller(Protocol):
    wake: asyncio.Event

    @property
    def caches(self) -> Iterable[Cache[Any]]: ...
    async def reconcile(self) -> float: ...


async def run_controller(controller: Controller, *, after: Iterable[Cache[Any]] = ()) -> None:
    """Runs the caches, and pass after pass once the caches `after` are synced."""
    async with asyncio.TaskGroup() as tasks:
        for cache in controller.caches:
            tasks.create_task(cache.run())
        for cache in after:
            await cache.synced.wait()
        await loop.run(controller.reconcile, controller.wake)
