"""`cede dashboard` as a process: it prints its address, opens a browser, serves, and ends."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from cede.cli import main
from tests.builders.shared_cluster import put_small_cluster
from tests.fakes.access import EVERYWHERE, reviews
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.paths import TREE
from tests.unit.cede_cli.conftest import Run

ENOUGH_S = 60.0


@asynccontextmanager
async def started(
    config: str, *words: str, **environment: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        # SIGINT is ignored by what runs in the background of a script, such as these tests
        *("env", "--default-signal=INT"),
        *(sys.executable, "-m", "cede.cli", "dashboard", "--kubeconfig", config, *words),
        cwd=TREE,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(ENOUGH_S):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def first_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_the_address_leads_to_the_page_until_it_is_interrupted(
    server: ApiServer, tmp_path: Path
) -> None:
    put_small_cluster(server)
    async with started(kubeconfig(tmp_path / "config", server.url), "--no-browser") as process:
        address = (await first_line(process)).removeprefix("The page is ")
        url, _, token = address.partition("#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}api/explain/research/gpt-7b", headers=headers) as response,
        ):
            explanation = await response.json()
        assert explanation["state"] == "Running"
        assert explanation["sentences"][0].startswith("It is elastic with the allowed sizes 2-8.")
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 130
    assert {path for method, path in server.writes()} <= {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    }


async def test_it_opens_the_browser_without_the_token_in_an_argument(
    server: ApiServer, tmp_path: Path
) -> None:
    server.admission_hook = reviews(EVERYWHERE)
    opened = tmp_path / "opened"
    os.mkfifo(opened)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >{opened}\n')
    browser.chmod(0o755)
    config = kubeconfig(tmp_path / "config", server.url)
    async with started(config, "-o", "json", BROWSER=f"{browser} %s") as process:
        url = (await asyncio.to_thread(opened.read_text)).strip()
        assert process.stdout is not None
        lines = [(await process.stdout.readline()).decode() for _ in range(3)]
        address = json.loads("".join(lines))["address"]
        page, _, token = address.partition("#token=")
        assert token not in url
        file = Path(url.removeprefix("file://"))
        assert f"url={address}" in await asyncio.to_thread(file.read_text)
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{page}api/me", headers=headers) as response,
        ):
            assert response.status == 200
        async with asyncio.timeout(ENOUGH_S):
            # the page was reached; nothing tells when a file is removed
            while file.parent.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_port_that_is_taken_is_bad_input(server: ApiServer, cede: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, text, error = await cede("dashboard", "--no-browser", "--port", str(port))
    assert (code, text) == (2, "")
    assert error.startswith(f"cede: --port {port} cannot be used (")
    assert error.endswith("): choose another, or none for a free one\n")


def test_an_api_server_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    assert main(["dashboard", "--no-browser", "--kubeconfig", config]) == 1
    text, error = capsys.readouterr()
    assert (text, len(error.splitlines())) == ("", 1)
    assert error.startswith("cede: the API server is not reachable: ")
