"""`python -m quota_controller`: flags, lease, loop."""

import argparse
import asyncio
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass

from cede.api import names
from cede.kube import health, lease, logs, loop
from cede.kube.client import Client, connect
from quota_controller.controller import Controller


@dataclass(frozen=True)
class Settings:
    identity: str  # who we are in the lease
    kubeconfig: str | None
    port: int  # of health and metrics
    log_level: str


def settings(arguments: list[str]) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m quota_controller", description=__doc__)
    parser.add_argument("--identity", default=os.environ.get("POD_NAME") or socket.gethostname())
    parser.add_argument("--kubeconfig", help="used outside a cluster; else the standard places")
    parser.add_argument("--port", type=int, default=8080, help="of /healthz, /readyz and /metrics")
    parser.add_argument("--log-level", default="INFO")
    found = parser.parse_args(arguments)
    return Settings(found.identity, found.kubeconfig, found.port, found.log_level)


async def work(client: Client) -> None:
    """Keeps the cluster as the plan says, for as long as we lead."""
    wake = asyncio.Event()
    controller = Controller(client, wake, time.time)
    async with asyncio.TaskGroup() as tasks:
        for cache in controller.caches:
            tasks.create_task(cache.run())
        await loop.run(controller.reconcile, wake)


async def main(chosen: Settings) -> None:
    logs.setup(chosen.log_level)
    key = (names.SYSTEM_NAMESPACE, names.QUOTA_CONTROLLER_LEASE)
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    async with (
        connect(manager=names.QUOTA_CONTROLLER, kubeconfig=chosen.kubeconfig) as client,
        health.serve(chosen.port, lambda: True),
    ):
        await lease.lead(client, key, chosen.identity, lambda: work(client))


if __name__ == "__main__":
    try:
        asyncio.run(main(settings(sys.argv[1:])))
    except asyncio.CancelledError:
        sys.exit(0)
