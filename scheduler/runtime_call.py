"""One signed HTTP call to one pod of a job, and what its answer says."""

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client import Counter

from elastic_runtime import contract
from elastic_runtime.contract import Status

CALL_S = 2.0
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=1.0)
"""Without `total`, see cede.kube.client."""
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


async def send(session: aiohttp.ClientSession, address: str, port: int, call: Call) -> Answer:
    """Within CALL_S for each key. A pod that does not know the newest one, or whose coordinator
    does not, is asked again with the one before."""
    for key in call.keys:
        answer = await _send(session, runtime_url(address, port, call.path), key, call)
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


async def _send(session: aiohttp.ClientSession, url: str, key: bytes, call: Call) -> Answer:
    nonce = secrets.token_hex(12)
    headers = contract.sign_request(
        key, call.method, call.path, call.job_uid, nonce, call.body, time.time()
    )
    try:
        async with (
            asyncio.timeout(CALL_S),
            session.request(
                call.method,
                url,
                data=call.body,
                headers=headers,
                allow_redirects=False,
                timeout=TIMEOUT,
            ) as reply,
        ):
            return _read(key, headers, reply, await _read_body(reply))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return Silence(str(error) or type(error).__name__)


def _read(
    key: bytes, headers: Mapping[str, str], reply: aiohttp.ClientResponse, content: bytes
) -> Answer:
    """Raises ValueError for a body that is no status."""
    signature = reply.headers.get(contract.SIGNATURE_HEADER, "")
    is_genuine = contract.reply_is_genuine(key, reply.status, headers, signature, content)
    message = content[:SHOWN_BYTES].decode(errors="replace")
    if reply.status == UNAUTHORIZED and not is_genuine:
        # a pod cannot sign its answer to a signature that it refuses
        return Refusal(reply.status, message)
    if not is_genuine:
        return Silence(f"its answer {reply.status} is not signed by the key of its namespace")
    if reply.status == 200:
        return contract.decode_status(content)
    if reply.status >= SERVER_ERROR or reply.status == UNAUTHORIZED:
        # it does not know the coordinator, or that one did not accept what this pod passed on
        return Silence(f"{reply.status}: {message}", reply.status == UNAVAILABLE)
    return Refusal(reply.status, message)


def runtime_url(address: str, port: int, path: str) -> str:
    """An IPv6 address stands in brackets (RFC 3986)."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}{path}"


async def _read_body(reply: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises ValueError above MAX_REPLY_BYTES."""
    content = bytearray()
    async for part in reply.content.iter_any():
        content += part
        if len(content) > MAX_REPLY_BYTES:
            raise ValueError(f"the reply is more than {MAX_REPLY_BYTES} bytes")
    return bytes(content)
