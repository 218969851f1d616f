"""The deployment: its flags, and that it serves."""

import asyncio
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import aiohttp
import pytest

from cede.dashboard.__main__ import parse_flags, serve
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.fakes.people import People


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        pytest.param("http://cede.example", "is not encrypted", id="tokens could be read"),
        pytest.param("cede.example", "should be a scheme and a host", id="no scheme"),
        pytest.param("https://cede.example/a", "should be a scheme and a host", id="a path"),
        pytest.param("ftp://cede.example", "should be a scheme and a host", id="another scheme"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused(
    address: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_flags(["--address", address])
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("address", ["https://cede.example", "http://localhost:8443"])
def test_encrypted_addresses_and_forwarded_ports_are_taken(address: str) -> None:
    assert parse_flags(["--address", f"{address}/"]).address == address


async def test_it_serves_once_it_has_read_the_cluster(server: ApiServer, tmp_path: Path) -> None:
    people = People()
    server.admission_hook = people
    headers = {"Authorization": f"Bearer {people.add('ada', ('research',))}"}
    ports = free_ports(2)
    flags = parse_flags(
        [
            *("--kubeconfig", kubeconfig(tmp_path / "config", server.url)),
            *("--address", f"http://localhost:{ports[0]}", "--name", "prod"),
            *("--port", str(ports[0]), "--health-port", str(ports[1])),
        ]
    )
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(flags, stop))
    async with asyncio.timeout(30), aiohttp.ClientSession(headers=headers) as session:
        await until_ready(session, f"http://localhost:{ports[1]}/readyz")
        async with session.get(f"http://localhost:{ports[0]}/api/page") as response:
            page = await response.json()
        stop.set()
        await serving
    assert page["cluster"]["cluster"]["context"] == "prod"
    assert {row["namespace"] for row in page["jobs"].values()} == {"research"}


async def until_ready(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        with suppress(aiohttp.ClientConnectorError):
            async with session.get(url) as response:
                if response.status == 200:
                    return
        await asyncio.sleep(0.01)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]
