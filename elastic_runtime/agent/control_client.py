"""Signed calls to the control port of an agent, and the check that the reply is signed too."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping

from elastic_runtime import contract, json_codec
from elastic_runtime.agent.http_message import encode_message, read_message
from elastic_runtime.agent.signing_keys import Keys

# Bytes of a reply.
MAX_REPLY = 1 << 20
# Shown of a reply that cannot be read.
MAX_SHOWN = 200


class Refused(Exception):
    """The other side refused the request; the message is its own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Connection:
    """To one control port. It stays open until a call fails; the next one then connects again,
    perhaps to another process. A call waits for the one before it.
    """

    def __init__(self, host: str, port: int, keys: Keys, job_uid: str) -> None:
        self.host = host
        self.port = port
        self._keys = keys
        self._job_uid = job_uid
        self._in_use = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def is_open(self) -> bool:
        """Whether all calls since the last failure were answered by one process."""
        return self._streams is not None

    def close(self) -> None:
        if self._streams:
            self._streams[1].close()
        self._streams = None

    async def call(
        self, method: str, path: str, body: bytes = b"", *, timeout_s: float = 5.0
    ) -> bytes:
        """The body of the signed reply to a request that is signed here.

        The other side may not have read the newest key yet: an older one is tried after it.
        Raises Refused, or OSError (also TimeoutError) when there was no reply.
        """
        *newer, oldest = self._keys()
        for key in newer:
            try:
                return await self._call(key, method, path, body, timeout_s)
            except Refused as refused:
                if (refused.status, refused.message) != (401, contract.WRONG_SIGNATURE):
                    raise
        return await self._call(oldest, method, path, body, timeout_s)

    async def _call(
        self, key: bytes, method: str, path: str, body: bytes, timeout_s: float
    ) -> bytes:
        def sign() -> Mapping[str, str]:
            nonce = secrets.token_hex(12)
            return contract.sign_request(key, method, path, self._job_uid, nonce, body, time.time())

        return await self._send(key, method, path, sign, body, timeout_s)

    async def forward(
        self,
        method: str,
        path: str,
        signed: Mapping[str, str],
        body: bytes,
        *,
        timeout_s: float = 5.0,
    ) -> bytes:
        """As `call`, for a request that its sender has `signed`: these are its headers."""
        key = contract.key_of_request(self._keys(), method, path, signed, body)
        return await self._send(key, method, path, lambda: signed, body, timeout_s)

    async def _send(
        self,
        key: bytes,
        method: str,
        path: str,
        sign: Callable[[], Mapping[str, str]],
        body: bytes,
        timeout_s: float,
    ) -> bytes:
        is_begun = False
        try:
            async with asyncio.timeout(timeout_s), self._in_use:
                is_begun = True
                await self._connect()
                # Not before: a pod refuses what was signed before it started.
                signed = sign()
                headers = {name: signed[name] for name in contract.HEADERS}
                # A whole name ends in a dot, that of a server does not.
                headers["Host"] = self.host.rstrip(".")
                request = encode_message(f"{method} {path} HTTP/1.1", headers, body)
                status, reply_headers, content = await self._exchange(request)
            is_begun = False
        finally:
            # Also after a cancellation: a late reply would pass for that of the next call.
            if is_begun:
                self.close()
        signature = reply_headers.get(contract.SIGNATURE_HEADER, "")
        is_genuine = contract.reply_is_genuine(key, status, headers, signature, content)
        # A server that refuses the signature cannot sign its reply to it.
        if status != 401 and not is_genuine:
            self.close()
            raise Refused(0, "the reply is not signed by this job's key")
        if status >= 400:
            raise Refused(status, _refusal(content))
        return content

    async def _connect(self) -> None:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port, limit=MAX_REPLY)

    async def _exchange(self, request: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """(status, headers, body) of the reply."""
        assert self._streams
        reader, writer = self._streams
        try:
            writer.write(request)
            await writer.drain()
            return await _read_reply(reader)
        except (EOFError, ValueError) as error:
            # Any process may listen at that port.
            raise ConnectionResetError(f"{self.host}:{self.port} broke off: {error}") from error


async def call(
    host: str,
    port: int,
    keys: Keys,
    job_uid: str,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    timeout_s: float = 5.0,
) -> bytes:
    """As `Connection.call`, on a connection for this call only."""
    connection = Connection(host, port, keys, job_uid)
    try:
        return await connection.call(method, path, body, timeout_s=timeout_s)
    finally:
        connection.close()


async def forward(
    host: str,
    port: int,
    keys: Keys,
    method: str,
    path: str,
    signed: Mapping[str, str],
    body: bytes,
    *,
    timeout_s: float = 5.0,
) -> bytes:
    """As `Connection.forward`, on a connection for this call only."""
    connection = Connection(host, port, keys, signed[contract.JOB_HEADER])
    try:
        return await connection.forward(method, path, signed, body, timeout_s=timeout_s)
    finally:
        connection.close()


async def _read_reply(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str], bytes]:
    """(status, headers, body). Raises EOFError for a reply that breaks off, ValueError for none."""
    reply = await read_message(reader, MAX_REPLY)
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
