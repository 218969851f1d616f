"""`cede dashboard`: a page on this machine, with the rights of the person who starts it."""

import secrets
import time
import webbrowser
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from cede.api.objects import Key
from cede.commands.command import BadInput, Options
from cede.commands.connection import connected, context_of
from cede.commands.output import show
from cede.commands.read_job import read_explained
from cede.kube.errors import ApiError
from cede.kube.failures import failure_sentence

if TYPE_CHECKING:
    from cede.kube.client import HttpClient
    from cede.report.explanation import Explanation

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
    from cede.dashboard.feed import Feed
    from cede.dashboard.live import Live
    from cede.dashboard.server import Server

    context = context_of(chosen)
    async with connected(chosen) as client:
        await client.describe("/version")
        feed = Feed()

        async def explain(key: Key) -> "Explanation":
            return await _explain(client, key)

        try:
            runner, address = await Server(feed, explain, secrets.token_urlsafe(32)).start(port)
        except OSError as error:
            raise BadInput(
                f"--port {port} cannot be used ({error.strerror}): choose another, or none for a "
                f"free one"
            ) from error
        try:
            show(chosen, {"address": address}, [f"The page is {address}", "Ctrl-C ends it."])
            if not no_browser:
                # a browser in the terminal, such as lynx, returns only when it ends
                Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            await Live(client, feed, context).run()
        finally:
            await runner.cleanup()
    raise AssertionError("it runs until it is interrupted")


async def _explain(client: "HttpClient", key: Key) -> "Explanation":
    """As `cede explain`; an error becomes the explanation."""
    from cede.report.explanation import Explanation, explain

    try:
        snapshot, warnings = await read_explained(client, key)
    except ApiError as error:
        namespace, name = key
        return Explanation(namespace, name, "Unknown", (failure_sentence(error),))
    explained = explain(key, snapshot, time.time())
    return replace(explained, sentences=(*explained.sentences, *warnings))
