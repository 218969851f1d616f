"""`python -m scheduler`: run the scheduler, dump its input, or explain a dump.

`python -m scheduler simulate` replays a trace of jobs, without a cluster.
"""

import argparse
import asyncio
import os
import socket
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cede.api import names
from cede.api.policy import PolicySpec
from cede.kube import logs, service
from cede.kube.cache import all_synced
from cede.kube.client import Client
from cede.kube.connection import connect
from cede.kube.lease import Times
from scheduler import snapshot_dump
from scheduler.announcer import Announcer
from scheduler.controller import Controller
from scheduler.leader_clock import LeaderClock
from scheduler.plan import plan
from scheduler.progress_writer import ProgressWriter
from scheduler.simulate import cli as simulation
from scheduler.snapshot import snapshot

STDOUT = "/dev/stdout"
LEADERSHIP = service.Leadership(
    names.SCHEDULER_LEASE,
    # A pass may wait for requests of up to 30 s. By default Kueue preempts after 120 s: before, the
    # other replica has time for a pass. An error that leaves out the claims of all teams has the
    # same time to pass.
    stalled_after_s=60.0,
    # A standby leads 4.8 s after a crash at the latest. The leader writes its Lease 1.5 times a
    # second, and a standby reads it as often.
    times=Times(duration_s=4.0, deadline_s=3.0, retry_s=0.6),
)


@dataclass(frozen=True)
class Flags:
    service: service.Flags
    # write the scheduler's input to this file and exit; - is stdout
    dump: str
    # print the plan for the dump in this file and exit
    snapshot: str


def read_flags(arguments: list[str]) -> Flags:
    parser = argparse.ArgumentParser(prog="python -m scheduler", description=__doc__)
    service.add_flags(parser, os.environ.get("POD_NAME") or socket.gethostname())
    parser.add_argument(
        "--dump",
        default="",
        metavar="FILE",
        help="write the scheduler's input to FILE as JSON and exit; - is stdout",
    )
    parser.add_argument(
        "--snapshot",
        default="",
        metavar="FILE",
        help="print the plan for a file written by --dump and exit; needs no cluster",
    )
    arguments_read = parser.parse_args(arguments)
    return Flags(service.read_flags(arguments_read), arguments_read.dump, arguments_read.snapshot)


def explain(file: str) -> None:
    """Print the plan for a dump, and why."""
    objects, policy, now = snapshot_dump.read(Path(file).read_text())
    decision = plan(snapshot.take(objects), policy, now)
    for why in decision.why:
        print(why)
    for action in decision.actions:
        fields = [f"{name}={value}" for name, value in action.log_fields.items()]
        print(type(action).__name__, *fields)
    if not decision.actions:
        print("nothing to do")


async def dump(client: Client) -> str:
    """The scheduler's input as JSON. It changes nothing, so it needs no lease."""
    controller = Controller(client, asyncio.Event(), LeaderClock())
    async with controller.runtimes:
        tasks = [asyncio.create_task(cache.run()) for cache in controller.caches]
        await all_synced(controller.needed_caches)
        await controller.poll_runtimes()
        policy = controller.policy.spec if controller.policy else PolicySpec(mode="Observe")
        # this process does not lead: stages of Cessions count as the leader recorded them
        objects = replace(controller.observe(), led_since=0.0)
        text = snapshot_dump.write(objects, policy, time.time())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return text


async def run(client: Client, flags: service.Flags) -> None:
    """Schedule while this replica leads, until cancelled. Otherwise be ready to."""
    clock = LeaderClock()
    controller = Controller(client, asyncio.Event(), clock)
    announcer = Announcer(client, clock, controller.look_around)
    progress = ProgressWriter(client, clock, controller.look_at_runtimes)
    async with controller.runtimes, asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.listen())
        tasks.create_task(announcer.run())
        tasks.create_task(progress.run())
        await service.run_replica(controller, client, flags, LEADERSHIP)


async def connect_and_dump(flags: Flags) -> str:
    # the dump may go to stdout, so nothing else may
    logs.setup("ERROR")
    async with connect(manager=names.SCHEDULER, kubeconfig=flags.service.kubeconfig) as client:
        return await dump(client)


def main() -> None:
    if sys.argv[1:2] == ["simulate"]:
        simulation.main(sys.argv[2:])
        return
    flags = read_flags(sys.argv[1:])
    if flags.snapshot:
        explain(flags.snapshot)
    elif flags.dump:
        text = asyncio.run(connect_and_dump(flags))
        Path(STDOUT if flags.dump == "-" else flags.dump).write_text(text + "\n")
    else:
        running = service.run_process(
            flags.service, names.SCHEDULER, lambda client: run(client, flags.service)
        )
        try:
            asyncio.run(running)
        except asyncio.CancelledError:
            # the end that a signal asks for
            sys.exit(0)


if __name__ == "__main__":
    main()
