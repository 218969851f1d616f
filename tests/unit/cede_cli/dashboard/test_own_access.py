"""Who may ask for the page of one person: whoever has its token, on this machine only."""

import asyncio

import pytest

from tests.harness.page_reader import TOKEN, Reader

DATA = ("api/page", "api/changes?after=0", "api/me", "api/history", "api/explain/research/gpt-7b")


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param("", id="none"),
        pytest.param("Bearer another", id="wrong"),
        pytest.param("Bearer the-tokén", id="not ASCII"),
        pytest.param(TOKEN, id="no scheme"),
    ],
)
async def test_facts_need_the_token(reader: Reader, path: str, credentials: str) -> None:
    status, text = await reader.get(path, Authorization=credentials)
    assert (status, text) == (401, "open the address that `cede dashboard` printed\n")


async def test_bytes_that_are_no_text_are_no_token(reader: Reader) -> None:
    host = reader.url.removeprefix("http://").rstrip("/")
    incoming, outgoing = await asyncio.open_connection(*host.split(":"))
    outgoing.write(f"GET /api/page HTTP/1.0\r\nHost: {host}\r\n".encode())
    outgoing.write(b"Authorization: Bearer \xff\r\n\r\n")
    async with asyncio.timeout(20):
        status = await incoming.readline()
    outgoing.close()
    assert b" 401 " in status


async def test_the_token_in_the_address_is_no_credential(reader: Reader) -> None:
    status, _ = await reader.get(f"api/page?token={TOKEN}", Authorization="")
    assert status == 401


@pytest.mark.parametrize("path", ["", "page.mjs", "times.mjs", *DATA])
async def test_another_host_name_that_leads_here_is_refused(reader: Reader, path: str) -> None:
    """DNS rebinding: a page of somebody else whose name resolves to this machine."""
    assert (await reader.get(path, Host="evil.example"))[0] == 421
    assert (await reader.get(path, Host="127.0.0.1:1"))[0] == 421


async def test_localhost_is_this_machine_too(reader: Reader) -> None:
    port = reader.url.rstrip("/").rpartition(":")[2]
    assert (await reader.get("", Host=f"localhost:{port}"))[0] == 200


async def test_it_listens_on_this_machine_only(reader: Reader) -> None:
    assert reader.url.startswith("http://127.0.0.1:")
