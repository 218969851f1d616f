"""`python -m webhook`: parses flags, starts caches, serves reviews over TLS."""

import argparse
import asyncio
import asyncio.sslproto
import gc
import logging
import signal
import ssl
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from cede.api.allocation import ComputeAllocation
from cede.api.kueue import LocalQueue
from cede.api.names import POLICY_NAME, SYSTEM_NAMESPACE, WEBHOOK
from cede.api.objects import ALLOCATIONS, DEPLOYMENTS, LOCAL_QUEUES, POLICIES
from cede.api.policy import ClusterPolicy
from cede.kube import health, logs, loop
from cede.kube.cache import Cache
from cede.kube.client import Client
from cede.kube.connection import connect, namespace_mistake
from cede.kube.errors import NotFound
from webhook.connections import Connections, listen
from webhook.server import create_app
from webhook.serving_certificate import ServingCertificate
from webhook.team import Team, build_team

log = logging.getLogger("webhook")
CONTAINER = "webhook"
"""Ours in the Deployment: deploy/base/webhook/deployment.yaml."""
TLS_RECORD_BYTES = 16 << 10
"""The largest (RFC 8446, section 5.1)."""


@dataclass(frozen=True)
class Flags:
    kubeconfig: str | None
    # of the reviews, TLS
    port: int
    health_port: int
    # from unready to closed: clients need as long to stop using our address
    drain_s: float
    log_level: str


def parse_flags(arguments: list[str]) -> Flags:
    parser = argparse.ArgumentParser(prog="python -m webhook", description=__doc__)
    parser.add_argument(
        "--kubeconfig", help="used outside a cluster; default: the standard locations"
    )
    parser.add_argument("--port", type=int, default=8443, help="of the admission reviews, TLS")
    parser.add_argument(
        "--health-port", type=int, default=8080, help="of /healthz, /readyz and /metrics"
    )
    parser.add_argument(
        "--drain-seconds", type=float, default=5.0, help="how long to answer after SIGTERM"
    )
    parser.add_argument("--log-level", default="INFO")
    parsed = parser.parse_args(arguments)
    return Flags(
        kubeconfig=parsed.kubeconfig,
        port=parsed.port,
        health_port=parsed.health_port,
        drain_s=parsed.drain_seconds,
        log_level=parsed.log_level,
    )


class TeamCache:
    """Live copies of the objects that teams are built from. A team is built again only after one of
    them changes."""

    def __init__(self, client: Client, runtime_image: str) -> None:
        self._runtime_image = runtime_image
        self._teams: dict[str, Team] = {}
        self.policies = Cache(client, POLICIES, ClusterPolicy, changed=self._teams.clear)
        self.allocations = Cache(client, ALLOCATIONS, ComputeAllocation, changed=self._teams.clear)
        self.queues = Cache(client, LOCAL_QUEUES, LocalQueue, changed=self._teams.clear)

    def get_team(self, namespace: str) -> Team:
        if namespace not in self._teams:
            team = build_team(
                namespace,
                self.policies.get(("", POLICY_NAME)),
                self.allocations.all(),
                self.queues.all(),
            )
            self._teams[namespace] = replace(team, runtime_image=self._runtime_image)
        return self._teams[namespace]


async def find_own_image(client: Client) -> str:
    """The image of our Deployment, as every way to install it leaves it there; empty if there is
    none, as outside a cluster. A Deployment with another image gets other pods, which ask again."""
    try:
        deployment = await client.get(DEPLOYMENTS, dict, (SYSTEM_NAMESPACE, WEBHOOK))
    except NotFound:
        log.warning("no runtime can be injected: the Deployment is not there")
        return ""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    # a webhook of others may have put its own container first
    images = {container["name"]: str(container["image"]) for container in containers}
    return images.get(CONTAINER, "")


async def serve(client: Client, flags: Flags, stop: asyncio.Event) -> None:
    """Answers reviews until `stop` is set.

    Ready when all caches are complete and a valid certificate is served.
    """
    wake = asyncio.Event()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate = ServingCertificate(client, context, wake.set, time.time)
    teams = TeamCache(client, await find_own_image(client))
    caches: list[Cache[Any]] = [
        teams.policies,
        teams.allocations,
        teams.queues,
        certificate.secret,
    ]

    def is_ready() -> bool:
        caches_complete = all(cache.synced.is_set() for cache in caches)
        return certificate.is_valid and not stop.is_set() and caches_complete

    async def load_certificates() -> None:
        await certificate.secret.synced.wait()
        await loop.run(certificate.reconcile, wake, name="certificate")

    connections = Connections()
    app = create_app(teams.get_team, connections)
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=flags.drain_s, auto_decompress=False
    )
    await runner.setup()
    server = runner.server
    assert server is not None
    try:
        with listen(flags.port) as listener:
            async with asyncio.TaskGroup() as tasks, health.serve(flags.health_port, is_ready):
                works = [cache.run() for cache in caches]
                works += [load_certificates(), connections.serve(listener, server, context)]
                background = [tasks.create_task(work) for work in works]
                log.info("serving", extra={"port": flags.port})
                await stop.wait()
                await asyncio.sleep(flags.drain_s)
                for task in background:
                    task.cancel()
    finally:
        await runner.cleanup()


def bound_memory() -> None:
    """A connection takes less memory, and a collection of garbage less time, from now on."""
    # the size of a buffer that asyncio makes for each connection: 256 KiB by default
    asyncio.sslproto.SSLProtocol.max_size = TLS_RECORD_BYTES
    # what was imported stays: Connections collects after every hundred connections
    gc.freeze()


async def main(flags: Flags) -> None:
    if mistake := namespace_mistake(flags.kubeconfig):
        sys.exit(mistake)
    logs.setup(flags.log_level)
    bound_memory()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with connect(manager=WEBHOOK, kubeconfig=flags.kubeconfig) as client:
        await serve(client, flags, stop)


if __name__ == "__main__":
    asyncio.run(main(parse_flags(sys.argv[1:])))
