"""What `cede` costs with 10,000 jobs: `python -m tests.bench.command`.

An API server in memory, in a process of its own, with 100 teams. Every run is a process as a person
starts it: its time has the start of Python, and that of the server, which is written in Python too.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cede.api.objects import WORKLOADS, Json
from tests.builders.shared_cluster import put_large_cluster
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig

COMMANDS = {
    "status": ("status",),
    "jobs of a team": ("jobs", "-n", "team-000"),
    "jobs of all": ("jobs", "-A"),
    "explain a job that runs": ("explain", "job-0000", "-n", "team-000"),
    "explain a job that waits": ("explain", "job-0001", "-n", "team-000"),
    "history": ("history",),
}
WAITS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor a100-80g, 4 more needed"
)
ENV = [{"name": f"SETTING_{number}", "value": "x" * 60} for number in range(40)]
"""A Workload of a real cluster has about 4 KiB."""
MIB = 1 << 20


@dataclass(frozen=True)
class Run:
    wall_s: float
    cpu_s: float
    memory_bytes: int
    requests: int


def serve(teams: int, jobs_each: int, connection: Connection) -> None:
    """Sends its address, then the number of requests since the last time whenever it is asked; and
    serves until the process is terminated."""

    async def run() -> None:
        async with ApiServer() as server:
            put_large_cluster(server, teams, jobs_each, waits=WAITS)
            for body in server.objects(WORKLOADS):
                body["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["env"] = ENV
                server.put(WORKLOADS, body)

            def answer() -> None:
                connection.recv()
                connection.send(len(server.requests))
                server.requests.clear()

            asyncio.get_running_loop().add_reader(connection.fileno(), answer)
            connection.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def serving(teams: int, jobs_each: int) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(teams, jobs_each, theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def requests_since(server: Connection) -> int:
    server.send(None)
    return int(server.recv())


def run_once(server: Connection, config: str, words: tuple[str, ...]) -> Run:
    """Raises AssertionError if the command fails or prints nothing."""
    requests_since(server)
    command = [sys.executable, "-m", "cede.cli", *words, "--kubeconfig", config]
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output)
        # of this process alone
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        assert status == 0, f"{words}: {status}"
        assert os.fstat(output.fileno()).st_size, words
    return Run(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, requests_since(server))


def summary(runs: list[Run]) -> Json:
    walls = [run.wall_s for run in runs]
    return {
        "median_s": round(statistics.median(walls), 2),
        "min_s": round(min(walls), 2),
        "max_s": round(max(walls), 2),
        "cpu_median_s": round(statistics.median(run.cpu_s for run in runs), 2),
        "memory_mib": round(max(run.memory_bytes for run in runs) / MIB),
        "requests": max(run.requests for run in runs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teams", type=int, default=100)
    parser.add_argument("--jobs-each", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    with (
        serving(chosen.teams, chosen.jobs_each) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        config = kubeconfig(Path(folder) / "config", server.recv())
        for name, words in COMMANDS.items():
            runs = [run_once(server, config, words) for _ in range(chosen.runs)]
            print(json.dumps({"command": name} | summary(runs)), flush=True)


if __name__ == "__main__":
    main()
