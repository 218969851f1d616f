"""`python -m quota_controller`: runs the controller while this replica leads."""

import argparse
import asyncio
import os
import socket
import sys
import time

from cede.api import names
from cede.kube import service
from cede.kube.client import Client
from quota_controller.controller import Controller


def read_flags(arguments: list[str]) -> service.Flags:
    parser = argparse.ArgumentParser(prog="python -m quota_controller", description=__doc__)
    service.add_flags(parser, os.environ.get("POD_NAME") or socket.gethostname())
    return service.read_flags(parser.parse_args(arguments))


async def work(client: Client) -> None:
    """Runs the controller until cancelled."""
    await service.run_controller(Controller(client, asyncio.Event(), time.time))


if __name__ == "__main__":
    try:
        asyncio.run(
            service.run_as_leader(
                read_flags(sys.argv[1:]), names.QUOTA_CONTROLLER, names.QUOTA_CONTROLLER_LEASE, work
            )
        )
    except asyncio.CancelledError:
        sys.exit(0)
