"""One signed HTTP call to one pod of a job, and what its answer says.

A pod may send anything, and the event loop that reads it renews the Lease too. So the answer is
read here: an HTTP library reads interim answers (1xx) and surplus ones without a limit.
"""

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import Counter

from elastic_runtime import contract
from elastic_runtime.contract import Status

CALL_S = 2.0
CONNECT_S = 1.5
MAX_HEAD_BYTES = 8 << 10
"""Of the status line and the headers."""
MAX_REPLY_BYTES = 64 << 10
"""Of a status, whose texts are bounded. All calls at once fit into the memory of the scheduler."""
UNAUTHORIZED = 401
UNAVAILABLE = 503
SERVER_ERROR = 500
SHOWN_BYTES = 200
CALLS = Counter(
    "cede_runtime_calls_total",
    "Calls to runtimes: status polls (GET), requests of sizes (PUT), requests of saves and "
    "reports that a pod has succeeded (POST), by result.",
    ["method", "result"],
)


@dataclass(frozen=True, slots=True)
class Call:
    """To any pod of a job."""

    # of the job's namespace, the newest first
    keys: tuple[bytes, ...]
    job_uid: str
    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The job does not accept the request, or this pod does not accept its signature."""

    status: int
    message: str

    @property
    def is_final(self) -> bool:
        """Whether another pod would answer the same. A pod that has just started refuses what a
        clock that is behind has signed, and older pods accept it."""
        return self.status != UNAUTHORIZED


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing that counts came from this pod: another one may answer."""

    reason: str
    # True if the pod answers that it knows no coordinator
    is_leaderless: bool = False


Answer = Status | Refusal | Silence


async def send(address: str, port: int, call: Call) -> Answer:
    """Within CALL_S for each key. A pod that does not know the newest one, or whose coordinator
    does not, is asked again with the one before."""
    for key in call.keys:
        answer = await _send(address, port, key, call)
        if not _is_key_unknown(answer):
            break
    match answer:
        case Status():
            result = "answered"
        case Refusal():
            result = "refused"
        case Silence():
            result = "silent"
    CALLS.labels(call.method, result).inc()
    return answer


def _is_key_unknown(answer: Answer) -> bool:
    match answer:
        case Refusal(message=reason) | Silence(reason=reason):
            return contract.WRONG_SIGNATURE in reason
    return False


async def _send(address: str, port: int, key: bytes, call: Call) -> Answer:
    nonce = secrets.token_hex(12)
    signed = contract.sign_request(
        key, call.method, call.path, call.job_uid, nonce, call.body, time.time()
    )
    try:
        async with asyncio.timeout(CALL_S):
            reply = await _exchange(address, port, _encode(call, host(address, port), signed))
        return _read(key, signed, reply)
    except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError, ValueError) as error:
        return Silence(str(error) or type(error).__name__)


def _read(key: bytes, signed: Mapping[str, str], reply: "_Reply") -> Answer:
    """Raises ValueError for a body that is no status."""
    signature = reply.headers.get(contract.SIGNATURE_HEADER, "")
    is_genuine = contract.reply_is_genuine(key, reply.status, signed, signature, reply.body)
    message = reply.body[:SHOWN_BYTES].decode(errors="replace")
    if reply.status == UNAUTHORIZED and not is_genuine:
        # a pod cannot sign its answer to a signature that it refuses
        return Refusal(reply.status, message)
    if not is_genuine:
        return Silence(f"its answer {reply.status} is not signed by the key of its namespace")
    if reply.status == 200:
        return contract.decode_status(reply.body)
    if reply.status >= SERVER_ERROR or reply.status == UNAUTHORIZED:
        # it does not know the coordinator, or that one did not accept what this pod passed on
        return Silence(f"{reply.status}: {message}", reply.status == UNAVAILABLE)
    return Refusal(reply.status, message)


def host(address: str, port: int) -> str:
    """An IPv6 address stands in brackets (RFC 3986)."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _encode(call: Call, host: str, signed: Mapping[str, str]) -> bytes:
    fields = {
        "Host": host,
        "Connection": "close",
        "Content-Length": str(len(call.body)),
        **signed,
    }
    lines = [f"{call.method} {call.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + call.body


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    # names in title case
    headers: Mapping[str, str]
    body: bytes


async def _exchange(address: str, port: int, request: bytes) -> _Reply:
    """On a connection of its own, so that nothing is read that nobody waits for."""
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(address, port, limit=MAX_HEAD_BYTES)
    try:
        writer.write(request)
        return await _read_reply(reader)
    finally:
        # a close would wait until the pod has read the request
        writer.transport.abort()


async def _read_reply(reader: asyncio.StreamReader) -> _Reply:
    """The first answer. Raises ValueError for an interim one, which no runtime sends, and for one
    without a length, or with a larger one than it may have."""
    head = await reader.readuntil(b"\r\n\r\n")
    first_line, *lines = head.decode("latin-1").split("\r\n")
    status = int(first_line.partition(" ")[2][:3])
    if status < 200:
        raise ValueError(f"{status} is an interim answer, which no runtime sends")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().title(): value.strip() for name, _, value in pairs}
    length = headers.get("Content-Length", "missing")
    if not length.isdecimal() or int(length) > MAX_REPLY_BYTES:
        shown = length[:SHOWN_BYTES]
        raise ValueError(f"its Content-Length is {shown}: it must be 0 to {MAX_REPLY_BYTES}")
    return _Reply(status, headers, await reader.readexactly(int(length)))
