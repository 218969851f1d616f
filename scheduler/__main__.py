"""`python -m scheduler`: flags, lease, loop. `--dump FILE` writes what it sees and leaves;
`--snapshot FILE` explains such a file."""

import argparse
import asyncio
import os
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cede.api import names
from cede.api.policy import PolicySpec
from cede.kube import logs, service
from cede.kube.client import Client
from cede.kube.connection import connect
from scheduler import snapshot, snapshot_dump
from scheduler.controller import Controller, facts
from scheduler.plan import plan


@dataclass(frozen=True)
class Settings:
    service: service.Flags
    # write what is seen there, and leave; - is stdout
    dump: str
    # print the plan for such a file, and leave
    snapshot: str


def settings(arguments: list[str]) -> Settings:
    parser = argparse.ArgumentParser(prog="python -m scheduler", description=__doc__)
    service.add_flags(parser, os.environ.get("POD_NAME") or socket.gethostname())
    parser.add_argument(
        "--dump",
        default="",
        metavar="FILE",
        help="write what the scheduler sees as JSON, and leave; - is stdout",
    )
    parser.add_argument(
        "--snapshot",
        default="",
        metavar="FILE",
        help="print the plan for such a file, and leave; needs no cluster",
    )
    found = parser.parse_args(arguments)
    return Settings(service.read_flags(found), found.dump, found.snapshot)


def explain(file: str) -> None:
    """Prints what would be done about the picture in a file, and why."""
    seen, policy, now = snapshot_dump.read(Path(file).read_text())
    decided = plan(snapshot.take(seen), policy, now)
    for why in decided.why:
        print(why)
    for act in decided.acts:
        print(type(act).__name__, *(f"{name}={value}" for name, value in facts(act).items()))
    if not decided.acts:
        print("nothing to do")


async def picture(client: Client) -> str:
    """What the scheduler sees, as JSON; needs no lead, for it changes nothing."""
    controller = Controller(client, asyncio.Event(), time.time)
    async with controller.runtimes:
        running = [asyncio.create_task(cache.run()) for cache in controller.caches]
        for cache in controller.caches:
            await cache.synced.wait()
        await controller.listen()
        policy = controller.policies.get(("", names.POLICY_NAME))
        text = snapshot_dump.write(
            controller.look(), policy.spec if policy else PolicySpec(mode="Observe"), time.time()
        )
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return text


async def work(client: Client) -> None:
    """Plans and acts for as long as we lead."""
    controller = Controller(client, asyncio.Event(), time.time)
    async with controller.runtimes:
        await service.run_controller(controller, after=controller.caches)


async def look(chosen: Settings) -> str:
    # stdout may be the dump's
    logs.setup("ERROR")
    async with connect(manager=names.SCHEDULER, kubeconfig=chosen.service.kubeconfig) as client:
        return await picture(client)


if __name__ == "__main__":
    wanted = settings(sys.argv[1:])
    if wanted.snapshot:
        explain(wanted.snapshot)
        sys.exit(0)
    if wanted.dump:
        text = asyncio.run(look(wanted))
        sys.exit(
            0
            if Path("/dev/stdout" if wanted.dump == "-" else wanted.dump).write_text(text + "\n")
            else 1
        )
    try:
        asyncio.run(
            service.run_as_leader(wanted.service, names.SCHEDULER, names.SCHEDULER_LEASE, work)
        )
    except asyncio.CancelledError:
        sys.exit(0)
