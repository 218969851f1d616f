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
from cede.kube.lease import Times
from quota_controller.certificates.keeper import CertificateKeeper
from quota_controller.controller import Controller

LEADERSHIP = service.Leadership(
    # its passes are up to a minute apart
    names.QUOTA_CONTROLLER_LEASE,
    stalled_after_s=180.0,
    times=Times(),
)


def read_flags(arguments: list[str]) -> service.Flags:
    parser = argparse.ArgumentParser(prog="python -m quota_controller", description=__doc__)
    service.add_flags(parser, os.environ.get("POD_NAME") or socket.gethostname())
    return service.read_flags(parser.parse_args(arguments))


async def run(client: Client, flags: service.Flags) -> None:
    """Runs the controller until cancelled, and beside it what keeps the webhook's certificates."""
    controller = Controller(client, asyncio.Event(), time.time)
    keeper = CertificateKeeper(client, asyncio.Event(), time.time)
    await service.run_replica(
        controller, client, flags, LEADERSHIP, beside=[keeper], began=controller.begin
    )


def main() -> None:
    flags = read_flags(sys.argv[1:])
    try:
        asyncio.run(
            service.run_process(flags, names.QUOTA_CONTROLLER, lambda client: run(client, flags))
        )
    except asyncio.CancelledError:
        # the end that a signal asks for
        sys.exit(0)


if __name__ == "__main__":
    main()
