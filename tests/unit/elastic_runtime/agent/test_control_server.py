"""The control port is signed both ways, and no unsigned request passes or breaks it."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

import pytest

from elastic_runtime import contract
from elastic_runtime.agent import control_client, control_server
from tests.fakes.agents import KEY, KEYS, always

JOB = "uid"


async def echo(method: str, path: str, _: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
    if body == b"bad":
        raise ValueError("size is 'bad'")
    if path == "/no":
        return 409, b'{"message": "not now"}'
    return 200, f"{method} {path} ".encode() + body


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = control_server.Server(KEYS, JOB, echo, lambda: "elastic_runtime_step 7\n")
    yield await server.start(0, "127.0.0.1")
    await server.stop()


async def send_bytes(port: int, sent: bytes) -> bytes:
    """What the port replies to these bytes before it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    writer.write_eof()
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    finally:
        writer.close()


def request(
    headers: dict[str, str], body: bytes = b"", path: str = "/v1/status", method: str = "GET"
) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def test_signed_call_is_answered(port: int) -> None:
    assert (
        await control_client.call("127.0.0.1", port, KEYS, JOB, "PUT", "/v1/size", b"{}")
        == b"PUT /v1/size {}"
    )


async def test_refusal_has_its_reason(port: int) -> None:
    with pytest.raises(control_client.Refused, match="not now"):
        await control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/no")
    with pytest.raises(control_client.Refused, match="400: size is 'bad'"):
        await control_client.call("127.0.0.1", port, KEYS, JOB, "PUT", "/v1/size", b"bad")


@pytest.mark.parametrize(("key", "job"), [(b"other", JOB), (KEY, "other")])
async def test_other_key_or_job_gets_401(port: int, key: bytes, job: str) -> None:
    with pytest.raises(control_client.Refused) as refused:
        await control_client.call("127.0.0.1", port, always(key), job, "GET", "/v1/status")
    assert refused.value.status == 401


async def test_unsigned_request_gets_401(port: int) -> None:
    assert (await send_bytes(port, request({}))).startswith(b"HTTP/1.1 401 ")


async def test_only_the_metrics_need_no_signature(port: int) -> None:
    reply = await send_bytes(port, request({}, path="/metrics"))
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert b"Content-Type: text/plain" in reply
    assert reply.endswith(b"\r\n\r\nelastic_runtime_step 7\n")
    for method, path in [
        ("POST", "/metrics"),
        ("GET", "/metrics?x=1"),
        ("GET", "//metrics"),
        ("GET", "/metrics/../v1/status"),
    ]:
        assert (await send_bytes(port, request({}, path=path, method=method))).startswith(
            b"HTTP/1.1 401 "
        )


async def test_replayed_request_gets_401(port: int) -> None:
    headers = contract.sign_request(KEY, "GET", "/v1/status", JOB, "once", b"", time.time())
    assert (await send_bytes(port, request(headers))).startswith(b"HTTP/1.1 200 ")
    assert (await send_bytes(port, request(headers))).startswith(b"HTTP/1.1 401 ")


async def test_header_names_are_read_in_any_case(port: int) -> None:
    headers = contract.sign_request(KEY, "GET", "/v1/status", JOB, "lower", b"", time.time())
    lower_case = {name.lower(): value for name, value in headers.items()}
    assert (await send_bytes(port, request(lower_case))).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="TLS"),
        pytest.param(b"GET\r\n\r\n", id="half a request line"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", id="negative length"),
        pytest.param(
            b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", id="length past every limit"
        ),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="length is no number"),
        pytest.param(b"PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf", id="half a body"),
        pytest.param(b"G" * (control_server.MAX_REQUEST + 9), id="endless line"),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + b"A: " + b"x" * 4000 + b"\r\nB: " + b"y" * 4200 + b"\r\n\r\n",
            id="headers past the limit",
        ),
        pytest.param(
            b"PUT / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (control_server.MAX_REQUEST + 1),
            id="body past the limit",
        ),
    ],
)
async def test_invalid_request_changes_nothing(port: int, sent: bytes) -> None:
    assert b" 200 " not in await send_bytes(port, sent)
    reply = await control_client.call("127.0.0.1", port, KEYS, JOB, "GET", "/still")
    assert reply == b"GET /still "
