"""Times how soon the second replica leads after the first was killed, on a cluster of any size.

An API server in a process of its own holds the cluster. Two replicas run as they do in a pod, and
ask the runtimes of the jobs, at addresses of this machine where nobody answers. The one that leads
is killed, and a new one takes its place as the standby.

`python -m tests.bench.scheduler.failover WORKLOADS [--times N]` prints one JSON object.
"""

import argparse
import asyncio
import base64
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.request import urlopen

import aiohttp
from kubernetes.aio.client.configuration import Configuration

from cede.api import names
from cede.api.objects import LEASES, POLICIES, SECRETS, Json, rfc3339
from cede.kube.client import HttpClient
from cede.kube.errors import NotFound
from scheduler.root_key import ROOT_SECRET
from scheduler.snapshot.kinds import KINDS
from tests.bench.bare import free_ports
from tests.bench.scheduler import pictures
from tests.bench.scheduler.pictures import SIZES, Size
from tests.bench.server_process import running
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.fakes.runtime import ROOT_KEY
from tests.paths import TREE

LEASE = (names.SYSTEM_NAMESPACE, names.SCHEDULER_LEASE)
LOOK_S = 0.05
"""Between two looks at the Lease, and at whether a replica is ready."""
READY_TIMEOUT_S = 1.0
LIMIT_S = 120.0
"""For a replica to have its copies, and to lead."""


# --- the server -----------------------------------------------------------------------------------
def serve(sender: Connection, size: Size) -> None:
    """Sends its address, and serves the cluster until the process is terminated."""

    async def run() -> None:
        async with ApiServer() as server:
            for name, body in pictures.objects(size, "full"):
                if name in KINDS:
                    server.put(KINDS[name][0], body)
            server.put(POLICIES, {"metadata": {"name": names.POLICY_NAME}, "spec": {}})
            namespace, name = ROOT_SECRET
            metadata = {"namespace": namespace, "name": name}
            key = base64.b64encode(ROOT_KEY).decode()
            server.put(SECRETS, {"metadata": metadata, "data": {names.SECRET_KEY: key}})
            # Otherwise each write goes through the history of all.
            server.compact()
            sender.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(run())


# --- the replicas ---------------------------------------------------------------------------------
@dataclass
class Replica:
    name: str
    port: int
    process: asyncio.subprocess.Process

    async def is_ready(self) -> bool:
        """Whether it has its copies of all objects."""
        try:
            url = f"http://127.0.0.1:{self.port}/readyz"
            reply = await asyncio.to_thread(urlopen, url, timeout=READY_TIMEOUT_S)
        except OSError:
            return False
        return bool(reply.status == 200)


@dataclass
class Replicas:
    """Those of one cluster, and its Lease."""

    client: HttpClient
    kubeconfig: str
    started: list[Replica] = field(default_factory=list)

    async def start(self) -> Replica:
        """A further one, once it could lead."""
        name = f"replica-{len(self.started)}"
        [port] = free_ports(1)
        flags = ["--identity", name, "--port", str(port), "--log-level", "WARNING"]
        flags += ["--kubeconfig", self.kubeconfig]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "scheduler", *flags, cwd=TREE
        )
        replica = Replica(name, port, process)
        self.started.append(replica)
        await until(replica.is_ready)
        return replica

    async def has_passed(self, replica: Replica, after: str) -> bool:
        """Whether it leads, and has finished a pass later than `after`."""
        try:
            lease: Json = await self.client.get(LEASES, dict, LEASE)
        except NotFound:
            return False
        last_pass = str(lease["metadata"].get("annotations", {}).get(names.LAST_PASS, ""))
        return bool(lease["spec"].get("holderIdentity") == replica.name and last_pass > after)

    async def stop(self) -> None:
        for replica in self.started:
            with suppress(ProcessLookupError):
                replica.process.kill()
            await replica.process.wait()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        # Another process fulfils it.
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


# --- the measurement ------------------------------------------------------------------------------
async def _measure(url: str, file: str, times: int) -> list[float]:
    async with aiohttp.ClientSession() as session:
        client = HttpClient(session, Configuration(host=url), "bench")
        replicas = Replicas(client, file)
        try:
            leader = await replicas.start()
            await until(partial(replicas.has_passed, leader, ""))
            durations = []
            for _ in range(times):
                standby = await replicas.start()
                leader.process.kill()
                died = time.monotonic()
                await until(partial(replicas.has_passed, standby, rfc3339(time.time(), micro=True)))
                durations.append(time.monotonic() - died)
                leader = standby
            return durations
        finally:
            await replicas.stop()


def measure(size: Size, times: int) -> list[float]:
    """Seconds from the end of a leader to the end of the next one's first pass."""
    with running(serve, size) as url, tempfile.TemporaryDirectory() as folder:
        file = kubeconfig(Path(folder) / "kubeconfig", url)
        return asyncio.run(_measure(url, file, times))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scheduler.failover")
    parser.add_argument("workloads", type=int, choices=[size.workloads for size in SIZES])
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    [size] = [size for size in SIZES if size.workloads == options.workloads]
    durations = measure(size, options.times)
    print(json.dumps({"seconds": [round(seconds, 2) for seconds in durations]}))


if __name__ == "__main__":
    main()
