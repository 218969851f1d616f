"""The deployment: its flags, and that it serves."""

from pathlib import Path

import aiohttp
import pytest

from cede.dashboard.__main__ import parse_flags
from tests.fakes.api_server import ApiServer
from tests.fakes.kubeconfig import kubeconfig
from tests.fakes.people import People
from tests.harness.page_reader import page_for_everybody


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
    config = kubeconfig(tmp_path / "config", server.url)
    async with (
        page_for_everybody("--kubeconfig", config, "--name", "prod") as url,
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{url}/api/page") as response,
    ):
        page = await response.json()
    assert page["cluster"]["cluster"]["context"] == "prod"
    assert {row["namespace"] for row in page["jobs"].values()} == {"research"}
