"""`python -m webhook`: flags, caches, TLS, serve."""

import argparse
import asyncio
import logging
import signal
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import LocalQueue
from cede.api.names import POLICY_NAME, WEBHOOK
from cede.api.objects import ALLOCATIONS, LOCAL_QUEUES, POLICIES
from cede.api.policy import ClusterPolicy
from cede.kube import health, logs, loop
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.connection import connect
from webhook.admission import Team
from webhook.certificates.keeper import Keeper
from webhook.server import application
from webhook.team import team_of

log = logging.getLogger("webhook")


@dataclass(frozen=True)
class Settings:
    kubeconfig: str | None
    # of the reviews, TLS
    port: int
    health_port: int
    # between unready and closed: endpoints take as long to forget us
    drain_s: float
    log_level: str


def settings(arguments: list[str]) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m webhook", description=__doc__)
    parser.add_argument("--kubeconfig", help="used outside a cluster; else the standard places")
    parser.add_argument("--port", type=int, default=8443, help="of the admission reviews, TLS")
    parser.add_argument(
        "--health-port", type=int, default=8080, help="of /healthz, /readyz and /metrics"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=5.0, help="to go on answering after SIGTERM"
    )
    parser.add_argument("--log-level", default="INFO")
    found = parser.parse_args(arguments)
    return Settings(
        found.kubeconfig, found.port, found.health_port, found.drain_seconds, found.log_level
    )


class Known:
    """Live copies of what the rules ask about, and each team as it follows from them: told anew
    only after a change."""

    def __init__(self, client: Client) -> None:
        self._teams: dict[str, Team] = {}
        self.policies = Cache(client, POLICIES, ClusterPolicy, changed=self._teams.clear)
        self.allocations = Cache(client, ALLOCATIONS, ComputeAllocation, changed=self._teams.clear)
        self.queues = Cache(client, LOCAL_QUEUES, LocalQueue, changed=self._teams.clear)

    def team(self, namespace: str) -> Team:
        if namespace not in self._teams:
            self._teams[namespace] = team_of(
                namespace,
                self.policies.get(("", POLICY_NAME)),
                self.allocations.all(),
                self.queues.all(),
            )
        return self._teams[namespace]


async def serve(client: Client, chosen: Settings, stop: asyncio.Event) -> None:
    """Answers reviews until `stop`. Ready once a certificate is loaded that API servers trust, and
    every cache has been heard whole."""
    wake = asyncio.Event()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    keeper = Keeper(client, context, wake.set, time.time)
    known = Known(client)
    caches: list[Cache[Any]] = [known.policies, known.allocations, known.queues, *keeper.caches]

    def ready() -> bool:
        return (
            keeper.serves and not stop.is_set() and all(cache.synced.is_set() for cache in caches)
        )

    async def keep() -> None:
        for cache in keeper.caches:
            await cache.synced.wait()
        await loop.run(keeper.reconcile, wake)

    runner = web.AppRunner(
        application(known.team), access_log=None, shutdown_timeout=chosen.drain_s
    )
    await runner.setup()
    try:
        async with asyncio.TaskGroup() as tasks, health.serve(chosen.health_port, ready):
            working = [
                tasks.create_task(each) for each in (*(cache.run() for cache in caches), keep())
            ]
            await web.TCPSite(runner, port=chosen.port, ssl_context=context).start()
            log.info("serving", extra={"port": chosen.port})
            await stop.wait()
            await asyncio.sleep(chosen.drain_s)
            for task in working:
                task.cancel()
    finally:
        await runner.cleanup()


async def main(chosen: Settings) -> None:
    logs.setup(chosen.log_level)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(manager=WEBHOOK, kubeconfig=chosen.kubeconfig) as client:
        await serve(client, chosen, stop)


if __name__ == "__main__":
    asyncio.run(main(settings(sys.argv[1:])))
