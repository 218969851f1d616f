"""The signed HTTP port of an agent. Its client is control_client.py."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from elastic_runtime import contract, json_codec
from elastic_runtime.agent.http_message import (
    MAX_HEADERS,
    Message,
    encode_message,
    read_message,
)
from elastic_runtime.agent.nonces import Nonces
from elastic_runtime.agent.signing_keys import Keys

# Bytes of a request, which is read before its signature can be checked.
MAX_REQUEST = 1 << 16
# Connections at once that have not sent a signed request yet: of one address, and in all. A further
# one takes the place of the oldest of that address, or of the address that has most of them. Signed
# ones are not limited: every member of a large job keeps two open. Those of thousands that connect
# at once to a new coordinator have been signed, but it has not read the requests yet. How many fit
# below the process's limit of open files, `agent.allow_connections` computes.
MAX_UNSIGNED_OF_ADDRESS = 512
MAX_UNSIGNED = 4096
# Replies on such a connection; then it is closed. A client whose newest key is refused signs with
# the one before, on the same connection.
MAX_UNSIGNED_REPLIES = 2
# Connections that wait to be accepted, and that are accepted together. All pods of a large job
# connect at once to a new coordinator; one that finds no place tries again after a second.
BACKLOG = 256
# A connection that sends no whole request, or does not read its reply, for so long is closed; the
# first is of connections that have sent no signed request.
UNSIGNED_TIMEOUT_S = 2.0
IDLE_TIMEOUT_S = 30.0
# For clients to read their last replies. A pod that terminates has little of its grace period left.
STOP_TIMEOUT_S = 1.0
METRICS_PATH = "/metrics"
T = TypeVar("T")
Handler = Callable[[str, str, Mapping[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""(method, path, headers, body) → (status, body)."""


class Server:
    """Serves `handler` to requests signed with one of `keys` for job `job_uid`; others get 401.

    `GET /metrics` needs no signature, because Prometheus signs nothing. `metrics` returns numbers
    only, uses nothing of the request, and changes nothing.
    """

    def __init__(
        self,
        keys: Keys,
        job_uid: str,
        handler: Handler,
        metrics: Callable[[], str],
        max_unsigned: int = MAX_UNSIGNED,
    ) -> None:
        self._keys = keys
        self._job_uid = job_uid
        self._handler = handler
        self._metrics = metrics
        self._max_unsigned = max_unsigned
        self._nonces = Nonces(time.time())
        self._server: asyncio.Server | None = None
        self._is_stopping = False
        self._open = set[asyncio.StreamWriter]()
        # Those of `_open` that have sent no signed request, and their address; the oldest first.
        self._unsigned = dict[asyncio.StreamWriter, str]()
        self._unsigned_of = Counter[str]()

    async def start(self, port: int, host: str | None = None) -> int:
        """Listen. Returns the port; 0 takes a free one."""
        # The limit is that of a line. A body may be longer.
        self._server = await asyncio.start_server(
            self._serve_connection, host, port, limit=MAX_HEADERS, backlog=BACKLOG
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Clients may read their last replies for STOP_TIMEOUT_S."""
        if not self._server:
            return
        self._is_stopping = True
        self._server.close()
        for writer in list(self._open):
            writer.close()
        try:
            # From Python 3.12 on it waits for every connection.
            await _within(STOP_TIMEOUT_S, self._server.wait_closed())
        except TimeoutError:
            for writer in list(self._open):
                writer.transport.abort()
            with suppress(TimeoutError):
                await _within(STOP_TIMEOUT_S, self._server.wait_closed())

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self._is_stopping:
            # It was accepted before, and is no open one yet.
            writer.transport.abort()
            return
        address = str((writer.get_extra_info("peername") or [""])[0])
        if self._unsigned_of[address] >= MAX_UNSIGNED_OF_ADDRESS:
            self._drop_unsigned(address)
        elif len(self._unsigned) >= self._max_unsigned:
            [(busiest, _)] = self._unsigned_of.most_common(1)
            self._drop_unsigned(busiest)
        self._open.add(writer)
        self._unsigned[writer] = address
        self._unsigned_of[address] += 1
        # After `drain` the buffer is empty: a close has nothing to wait for.
        writer.transport.set_write_buffer_limits(0)
        try:
            await self._serve_requests(reader, writer)
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
            self._forget_unsigned(writer)
            with suppress(OSError):
                writer.close()

    async def _serve_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        unsigned_replies = 0
        while request := await _within(self._timeout_s(writer), read_message(reader, MAX_REQUEST)):
            writer.write(await self._reply(writer, request))
            await _within(self._timeout_s(writer), writer.drain())
            if writer in self._unsigned:
                unsigned_replies += 1
                if unsigned_replies == MAX_UNSIGNED_REPLIES:
                    return
            # Nothing above waits if the next request is here already: let others take their turn.
            await asyncio.sleep(0)

    def _timeout_s(self, writer: asyncio.StreamWriter) -> float:
        return UNSIGNED_TIMEOUT_S if writer in self._unsigned else IDLE_TIMEOUT_S

    def _drop_unsigned(self, address: str) -> None:
        """The oldest one: a member has soon signed, so what is old is of somebody else."""
        oldest = next(writer for writer, other in self._unsigned.items() if other == address)
        self._forget_unsigned(oldest)
        oldest.transport.abort()

    def _forget_unsigned(self, writer: asyncio.StreamWriter) -> None:
        address = self._unsigned.pop(writer, None)
        if address is None:
            return
        self._unsigned_of[address] -= 1
        if not self._unsigned_of[address]:
            del self._unsigned_of[address]

    async def _reply(self, writer: asyncio.StreamWriter, request: Message) -> bytes:
        first_line, headers, body = request
        method, path, *_ = [*first_line.split(" "), "", ""]
        if (method, path) == ("GET", METRICS_PATH):
            text = self._metrics().encode()
            return encode_message("HTTP/1.1 200 OK", {}, text, "text/plain; version=0.0.4")
        key = contract.key_of_request(self._keys(), method, path, headers, body)
        refusal = self._nonces.refusal(key, method, path, self._job_uid, headers, body, time.time())
        if refusal:
            return encode_message("HTTP/1.1 401 Refused", {}, json_codec.dump({"message": refusal}))
        # Before the reply: a member's request may be held open.
        self._forget_unsigned(writer)
        return await self._signed_reply(key, method, path, headers, body)

    async def _signed_reply(
        self, key: bytes, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> bytes:
        try:
            status, reply = await self._handler(method, path, headers, body)
        except ValueError as error:
            status = 400
            reply = json_codec.dump({"message": str(error)})
        signature = contract.sign_reply(key, status, headers, reply)
        reason = "OK" if status < 400 else "Refused"
        return encode_message(f"HTTP/1.1 {status} {reason}", signature, reply)


async def _within(seconds: float, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work
