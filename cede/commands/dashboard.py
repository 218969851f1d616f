"""`cede dashboard`: a page on this machine, with the rights of the person who starts it."""

import asyncio
import webbrowser
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from cede.commands.command import BadInput, Options
from cede.commands.connection import connected, context_of
from cede.commands.output import show

if TYPE_CHECKING:
    from cede.dashboard.own_access import OwnAccess

PORT = Annotated[
    int,
    typer.Option(
        "--port",
        metavar="PORT",
        min=0,
        max=65535,
        help="the port of the page (default: a free one)",
    ),
]
NO_BROWSER = Annotated[
    bool, typer.Option("--no-browser", help="print the address, and open no browser")
]


async def dashboard(chosen: Options, port: PORT = 0, no_browser: NO_BROWSER = False) -> int:
    """Show teams, jobs and take-backs on a page in your browser, until Ctrl-C.

    The page changes as the cluster does, and shows what your kubeconfig lets you read. Only this
    machine can open it, and only with the address that the command prints.
    """
    # what they import takes a second, which other commands need not wait for
    from cede.dashboard.audience import Audience
    from cede.dashboard.explaining import explained
    from cede.dashboard.history import through_api_server
    from cede.dashboard.live import Live
    from cede.dashboard.own_access import OwnAccess
    from cede.dashboard.questions import Predictions
    from cede.dashboard.server import Server
    from cede.dashboard.visitor import Visitor

    audience = Audience(context_of(chosen))
    async with connected(chosen) as client:
        await client.describe("/version")
        ask = Predictions().answer
        visitor = Visitor(
            audience.feed,
            partial(explained, client),
            partial(ask, kubeconfig=chosen.kubeconfig, context=chosen.context),
            partial(through_api_server, client),
        )
        access = OwnAccess(visitor)
        try:
            runner, used_port = await Server(access).start(port)
        except OSError as error:
            raise BadInput(
                f"--port {port} cannot be used ({error.strerror}): choose another, or none for a "
                f"free one"
            ) from error
        try:
            address = access.listens(used_port)
            show(chosen, {"address": address}, [f"The page is {address}", "Ctrl-C ends it."])
            async with asyncio.TaskGroup() as group:
                if not no_browser:
                    group.create_task(_open(address, access))
                group.create_task(Live(client, audience.update).run())
        finally:
            await runner.cleanup()
    raise AssertionError("it runs until it is interrupted")


async def _open(address: str, access: "OwnAccess") -> None:
    """Opens the browser. What leads it to the page is removed once it is there."""
    from cede.dashboard.redirect import redirect_file

    with redirect_file(address) as url:
        # a browser in the terminal, such as lynx, returns only when it ends
        Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        await access.opened.wait()
