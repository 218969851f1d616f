"""The signed HTTP port: a small server and client on asyncio.

A training image brings no HTTP library that we could rely on.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from elastic_runtime import contract, json_codec
from elastic_runtime.agent.nonces import Nonces

# Bytes of a reply, of a request, which is read before its signature can be checked, and of all
# headers.
MAX_REPLY = 1 << 20
MAX_REQUEST = 1 << 16
MAX_HEADERS = 1 << 13
# Connections at once that have not sent a signed request yet. A further one takes the place of the
# oldest, of the address that has most of them. Signed ones are not limited: every member of a large
# job keeps one open.
MAX_UNSIGNED = 256
# A connection that sends no whole request, or does not read its reply, for so long is closed; the
# first is of connections that have sent no signed request.
UNSIGNED_TIMEOUT_S = 2.0
IDLE_TIMEOUT_S = 30.0
METRICS_PATH = "/metrics"
# Shown of a body or a line that cannot be read.
MAX_SHOWN = 200
T = TypeVar("T")
Message = tuple[str, Mapping[str, str], bytes]
"""(first line, headers, body)."""
Handler = Callable[[str, str, Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""(method, path, headers, body) → (status, body)."""


class Refused(Exception):
    """The other side refused the request; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Server:
    """Serves `handler` to requests that are signed with `key` for job `job_uid`; others get 401.

    `GET /metrics` needs no signature, because Prometheus signs nothing. `metrics` returns numbers
    only, uses nothing of the request, and changes nothing.
    """

    def __init__(
        self, key: bytes, job_uid: str, handler: Handler, metrics: Callable[[], str]
    ) -> None:
        self._key = key
        self._job_uid = job_uid
        self._handler = handler
        self._metrics = metrics
        self._nonces = Nonces(time.time())
        self._server: asyncio.Server | None = None
        self._open = set[asyncio.StreamWriter]()
        # Those of `_open` that have sent no signed request, and their address; the oldest first.
        self._unsigned = dict[asyncio.StreamWriter, str]()

    async def start(self, port: int, host: str | None = None) -> int:
        """Listen. Returns the port; 0 takes a free one."""
        self._server = await asyncio.start_server(
            self._serve_connection, host, port, limit=MAX_REQUEST
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._server:
            self._server.close()
            for writer in list(self._open):
                writer.close()
            await self._server.wait_closed()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(self._unsigned) >= MAX_UNSIGNED:
            self._drop_unsigned()
        self._open.add(writer)
        self._unsigned[writer] = str((writer.get_extra_info("peername") or [""])[0])
        # After `drain` the buffer is empty: a close has nothing to wait for.
        writer.transport.set_write_buffer_limits(0)
        try:
            while request := await _within(
                self._timeout_s(writer), _read_message(reader, MAX_REQUEST)
            ):
                writer.write(await self._reply(writer, request))
                await _within(IDLE_TIMEOUT_S, writer.drain())
        except TimeoutError:
            # A close would wait until the client reads what is left.
            writer.transport.abort()
        except (
            OSError,
            ValueError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            asyncio.CancelledError,
        ):
            # A broken connection, bytes that are no request, or the end: no reply is possible.
            pass
        finally:
            self._open.discard(writer)
            self._unsigned.pop(writer, None)
            with suppress(OSError):
                writer.close()

    def _timeout_s(self, writer: asyncio.StreamWriter) -> float:
        return UNSIGNED_TIMEOUT_S if writer in self._unsigned else IDLE_TIMEOUT_S

    def _drop_unsigned(self) -> None:
        """A member signs within milliseconds, so what is old is of somebody else."""
        [(busiest, _)] = Counter(self._unsigned.values()).most_common(1)
        oldest = next(writer for writer, address in self._unsigned.items() if address == busiest)
        del self._unsigned[oldest]
        oldest.transport.abort()

    async def _reply(self, writer: asyncio.StreamWriter, request: Message) -> bytes:
        first_line, headers, body = request
        method, path, *_ = [*first_line.split(" "), "", ""]
        if (method, path) == ("GET", METRICS_PATH):
            text = self._metrics().encode()
            return _encode("HTTP/1.1 200 OK", {}, text, "text/plain; version=0.0.4")
        refusal = self._nonces.refusal(
            self._key, method, path, self._job_uid, headers, body, time.time()
        )
        if refusal:
            return _encode("HTTP/1.1 401 Refused", {}, json_codec.dump({"message": refusal}))
        # Before the reply: a member's request may be held open.
        self._unsigned.pop(writer, None)
        return await self._signed_reply(method, path, headers, body)

    async def _signed_reply(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        try:
            status, reply = await self._handler(method, path, headers, body)
        except ValueError as error:
            status = 400
            reply = json_codec.dump({"message": str(error)})
        signature = contract.sign_reply(self._key, status, headers, reply)
        reason = "OK" if status < 400 else "Refused"
        return _encode(f"HTTP/1.1 {status} {reason}", signature, reply)


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
    """The body of the signed reply to a request that is signed here.

    Raises Refused, or OSError (also TimeoutError) when there was no reply.
    """
    signed = contract.sign_request(
        key, method, path, job_uid, secrets.token_hex(12), body, time.time()
    )
    return await forward(host, port, key, method, path, signed, body, timeout_s=timeout_s)


async def forward(
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
    """As `call`, for a request that its sender has `signed`: these are its headers."""
    headers = {name: signed[name] for name in contract.HEADERS}
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port, limit=MAX_REPLY)
        try:
            writer.write(_encode(f"{method} {path} HTTP/1.1", {**headers, "Host": host}, body))
            await writer.drain()
            status, reply_headers, content = await _read_reply(reader)
        except (EOFError, ValueError) as error:
            # Any process may listen at that port.
            raise ConnectionResetError(f"{host}:{port} broke off: {error}") from error
        finally:
            writer.close()
    signature = reply_headers.get(contract.SIGNATURE_HEADER, "")
    # A server that refuses the signature cannot sign its reply to it.
    if status != 401 and not contract.reply_is_genuine(key, status, headers, signature, content):
        raise Refused(0, "the reply is not signed by this job's key")
    if status >= 400:
        raise Refused(status, _refusal(content))
    return content


async def _read_reply(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str], bytes]:
    """(status, headers, body). Raises EOFError for a reply that breaks off, ValueError for none."""
    reply = await _read_message(reader, MAX_REPLY)
    if reply is None:
        raise EOFError("it sent no reply")
    first_line, headers, body = reply
    status = first_line.partition(" ")[2][:3]
    if not (status.isdecimal() and status.isascii()):
        raise ValueError(f"{first_line[:40]!r} is no reply")
    return int(status), headers, body


def _refusal(content: bytes) -> str:
    try:
        return str(json_codec.load(content)["message"])
    except (ValueError, KeyError):
        return content[:MAX_SHOWN].decode(errors="replace")


class _Headers(dict[str, str]):
    """Keys are spelled as in the contract, in whatever case they arrive."""

    def __setitem__(self, name: str, value: str) -> None:
        super().__setitem__(name.title(), value)


async def _within(seconds: float, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work


async def _read_message(reader: asyncio.StreamReader, max_body: int) -> Message | None:
    """None when the other side sends nothing more. Raises ValueError for what is no message."""
    first_line = await reader.readline()
    if not first_line.strip():
        return None
    headers = _Headers()
    size = 0
    while line := (await reader.readline()).strip():
        size += len(line)
        if size > MAX_HEADERS:
            raise ValueError(f"the headers are more than {MAX_HEADERS} bytes")
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip()] = value.strip()
    length = int(headers.get("Content-Length", "0"))
    if not 0 <= length <= max_body:
        raise ValueError(f"the body has {length} bytes: at most {max_body} are allowed")
    return first_line.decode("latin-1").strip(), headers, await reader.readexactly(length)


def _encode(
    first_line: str,
    headers: Mapping[str, str],
    body: bytes,
    content_type: str = "application/json",
) -> bytes:
    lines = [
        first_line,
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body
