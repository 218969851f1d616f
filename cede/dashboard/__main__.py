"""`python -m cede.dashboard`: the page for all who have a token of the cluster. Each sees what RBAC
lets them see."""

import argparse
import asyncio
import logging
import signal
import sys
import time
from urllib.parse import urlsplit

from kubernetes.aio.client.configuration import Configuration

from cede.api import names
from cede.dashboard.live import Live
from cede.dashboard.people.access import PeopleAccess
from cede.dashboard.people.as_person import MANAGER, as_person
from cede.dashboard.people.audiences import Audiences
from cede.dashboard.people.certificate import Certificate
from cede.dashboard.people.reviews import Reviews
from cede.dashboard.people.sessions import Sessions
from cede.dashboard.server import Server
from cede.kube import health, logs
from cede.kube.connection import connect, load_configuration, namespace_mistake

log = logging.getLogger("dashboard")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
LEDGER = f"http://{names.LEDGER}.{names.SYSTEM_NAMESPACE}:8080"


def parse_flags(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cede.dashboard", description=__doc__)
    parser.add_argument("--kubeconfig", help="used outside a cluster")
    parser.add_argument(
        "--address",
        type=_address,
        default="http://localhost:8443",
        metavar="URL",
        help="where people find the page: https, or http for a forwarded port of localhost",
    )
    parser.add_argument("--port", type=int, default=8443, help="of the page")
    parser.add_argument(
        "--health-port", type=int, default=8080, help="of /healthz, /readyz and /metrics"
    )
    parser.add_argument(
        "--tls",
        default="",
        metavar="FOLDER",
        help="with tls.crt and tls.key, as of a Secret; without these files the port has no TLS",
    )
    parser.add_argument("--name", default="", help="the name of the cluster on the page")
    parser.add_argument(
        "--ledger", default=LEDGER, metavar="URL", help=f"of the ledger (default: {LEDGER})"
    )
    parser.add_argument("--log-level", default="INFO")
    return parser.parse_args(arguments)


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise argparse.ArgumentTypeError(
            f"{text} should be a scheme and a host only, such as https://cede.example"
        )
    if parts.scheme == "http" and parts.hostname not in LOCAL_HOSTS:
        raise argparse.ArgumentTypeError(
            f"{text} is not encrypted, so tokens could be read on their way: it should begin with "
            f"https://"
        )
    return f"{parts.scheme}://{parts.netloc}"


async def serve(flags: argparse.Namespace, stop: asyncio.Event) -> None:
    """Serves until `stop` is set."""
    own = Configuration()
    await load_configuration(own, flags.kubeconfig)
    audiences = Audiences(flags.name)
    certificate = Certificate(flags.tls)
    async with (
        connect(manager=MANAGER, kubeconfig=flags.kubeconfig) as client,
        as_person(own) as persons,
        health.serve(flags.health_port, lambda: audiences.is_ready and not stop.is_set()),
    ):
        reviews = Reviews(client, lambda: audiences.team_namespaces)
        access = PeopleAccess(
            *(flags.address, reviews, Sessions(time.monotonic)),
            *(audiences, persons, flags.ledger),
        )
        runner, port = await Server(access).start(flags.port, "", certificate.context)
        log.info(
            "serving",
            extra={"address": flags.address, "port": port, "tls": bool(certificate.context)},
        )
        try:
            async with asyncio.TaskGroup() as group:
                works = (Live(client, audiences.update).run(), certificate.keep())
                tasks = [group.create_task(work) for work in works]
                await stop.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await runner.cleanup()


async def main(flags: argparse.Namespace) -> None:
    if mistake := namespace_mistake(flags.kubeconfig):
        sys.exit(mistake)
    logs.setup(flags.log_level)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(flags, stop)


if __name__ == "__main__":
    asyncio.run(main(parse_flags(sys.argv[1:])))
