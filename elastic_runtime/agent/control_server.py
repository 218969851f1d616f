"""The signed HTTP port: a small server and client on asyncio, since a training image brings no HTTP
library of ours."""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from elastic_runtime import contract

# bytes of a reply
LIMIT = 1 << 20
# bytes of a request: it is read before its signature can be checked
REQUEST_LIMIT = 1 << 16
# bytes of all headers
HEAD_LIMIT = 1 << 13
# connections at once that have sent no signed request: every member of a large job keeps a signed
# one open
STRANGERS_LIMIT = 256
# a connection that says nothing whole, or takes no answer, for so long is closed
IDLE_S = 30.0
METRICS_PATH = "/metrics"
T = TypeVar("T")
Handler = Callable[[str, str, Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""(method, path, headers, body) → (status, body)."""


class Refused(Exception):
    """The other side said no; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Server:
    """Serves `handler` to those who sign with `key` for job `job_uid`; everyone else gets 401.

    But for `GET /metrics`, which anybody may read, for Prometheus signs nothing: `metrics` gives
    numbers only, takes nothing of the
    request, and changes nothing.
    """

    def __init__(
        self, key: bytes, job_uid: str, handler: Handler, metrics: Callable[[], str]
    ) -> None:
        self._metrics = metrics
        self._key, self._job_uid, self._handler, self._nonces = (
            key,
            job_uid,
            handler,
            contract.Nonces(),
        )
        self._server: asyncio.Server | None = None
        self._open = set[asyncio.StreamWriter]()
        # those of them that have sent no signed request
        self._strangers = set[asyncio.StreamWriter]()

    async def start(self, port: int, host: str | None = None) -> int:
        """The port it listens on; 0 takes a free one."""
        self._server = await asyncio.start_server(self._connection, host, port, limit=REQUEST_LIMIT)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server:
            self._server.close()
            for writer in list(self._open):
                writer.close()
            await self._server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._strangers) >= STRANGERS_LIMIT:
            writer.close()
            return
        self._open.add(writer)
        self._strangers.add(writer)
        # drained means gone: nothing is left that a close would have to wait for
        writer.transport.set_write_buffer_limits(0)
        try:
            while request := await _within(IDLE_S, _read_message(reader, REQUEST_LIMIT)):
                first, headers, body = request
                method, path, *_ = [*first.split(" "), "", ""]
                if (method, path) == ("GET", METRICS_PATH):
                    reply = _message(
                        "HTTP/1.1 200 OK", {}, self._metrics().encode(), "text/plain; version=0.0.4"
                    )
                elif why := self._nonces.refused(
                    self._key, method, path, self._job_uid, headers, body, time.time()
                ):
                    reply = _message("HTTP/1.1 401 Refused", {}, dump({"message": why}))
                else:
                    # before it is answered: a member's question may be held open
                    self._strangers.discard(writer)
                    reply = await self._answer(method, path, headers, body)
                writer.write(reply)
                await _within(IDLE_S, writer.drain())
        except TimeoutError:
            # a close would wait for it to take what is left
            writer.transport.abort()
        except (
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            asyncio.CancelledError,
        ):
            # a broken connection, a request that is none, or the end: nobody is left to tell
            pass
        finally:
            self._open.discard(writer)
            self._strangers.discard(writer)
            with suppress(OSError):
                writer.close()

    async def _answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        """To a signed request, the signed reply."""
        try:
            status, reply = await self._handler(method, path, headers, body)
        except ValueError as error:
            status = 400
            reply = dump({"message": str(error)})
        signed = contract.sign_reply(self._key, status, headers, reply)
        return _message(f"HTTP/1.1 {status} {'OK' if status < 400 else 'Refused'}", signed, reply)


async def call(
    host: str,
    port: int,
    key: bytes,
    job_uid: str,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    timeout_s: float = 5.0,
) -> bytes:
    """The body of a genuine reply. Raises Refused, or OSError (TimeoutError too) when there was
    none."""
    signed = contract.sign_request(
        key, method, path, job_uid, secrets.token_hex(12), body, time.time()
    )
    return await pass_on(host, port, key, method, path, signed, body, timeout_s=timeout_s)


async def pass_on(
    host: str,
    port: int,
    key: bytes,
    method: str,
    path: str,
    signed: Mapping[str, str],
    body: bytes,
    *,
    timeout_s: float = 5.0,
) -> bytes:
    """The same for a request that was `signed`, maybe by somebody else: these are its headers."""
    headers = {name: signed[name] for name in contract.HEADERS}
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port, limit=LIMIT)
        try:
            writer.write(_message(f"{method} {path} HTTP/1.1", {**headers, "Host": host}, body))
            await writer.drain()
            status, got, content = await _read_reply(reader)
        except (EOFError, ValueError) as error:
            # it may be anybody who listens there
            raise ConnectionResetError(f"{host}:{port} broke off: {error}") from error
        finally:
            writer.close()
    if status != 401 and not contract.reply_is_genuine(
        key, status, headers, got.get(contract.SIGNATURE_HEADER, ""), content
    ):
        raise Refused(0, "the reply is not signed by this job's key")
    if status >= 400:
        raise Refused(status, _said(content))
    return content


async def _read_reply(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str], bytes]:
    """(status, headers, body). Raises EOFError when it breaks off, ValueError for what is no
    reply."""
    reply = await _read_message(reader)
    if reply is None:
        raise EOFError("it said nothing")
    first, headers, body = reply
    status = first.partition(" ")[2][:3]
    if not (status.isdecimal() and status.isascii()):
        raise ValueError(f"{first[:40]!r} is no reply")
    return int(status), headers, body


def _said(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return content[:200].decode(errors="replace")


class _Headers(dict[str, str]):
    """Looked up as written in the contract, whatever the case on the wire."""

    def __setitem__(self, name: str, value: str) -> None:
        super().__setitem__(name.title(), value)


async def _within(seconds: float, coming: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await coming


async def _read_message(
    reader: asyncio.StreamReader, limit: int = LIMIT
) -> tuple[str, Mapping[str, str], bytes] | None:
    """(first line, headers, body); None when the other side has nothing more to say."""
    first = await reader.readline()
    if not first.strip():
        return None
    headers = _Headers()
    room = HEAD_LIMIT
    while line := (await reader.readline()).strip():
        if (room := room - len(line)) < 0:
            raise ValueError(f"the head is more than {HEAD_LIMIT} bytes")
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip()] = value.strip()
    length = int(headers.get("Content-Length", "0"))
    if not 0 <= length <= limit:
        raise ValueError(f"a body of {length} bytes is more than {limit}")
    return first.decode("latin-1").strip(), headers, await reader.readexactly(length)


def _message(
    first: str, headers: Mapping[str, str], body: bytes, kind: str = "application/json"
) -> bytes:
    lines = [
        first,
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def dump(values: Any) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
