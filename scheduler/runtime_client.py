"""Polls the runtimes of the jobs and asks them for other sizes: signed HTTP to pod 0 of a job."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import aiohttp

from cede.api.objects import Key
from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, Status

log = logging.getLogger("scheduler.runtime_client")
FAST_POLL_S = 0.1
"""Between two polls of a job that is ceding."""
SLOW_POLL_S = 2.0
"""Between two polls of any other job."""
STATUS_LIFETIME_S = 10.0
"""A status older than this does not count."""
REPEAT_REQUEST_S = 1.0
"""The same request is not sent again within this time."""
TIMEOUT = aiohttp.ClientTimeout(total=2.0, connect=1.0)
MAX_CONNECTIONS = 200
MAX_REPLY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The runtime of one job."""

    job: Key
    uid: str
    address: str
    # poll it fast: it will soon report something new
    is_changing: bool = False


class RuntimeClient:
    """The last status of every followed runtime. Calls run beside the caller; `changed` is called
    when a status changes in a way that matters for a plan."""

    def __init__(
        self,
        root_key: Callable[[], bytes | None],
        changed: Callable[[], None],
        port: int = contract.PORT,
    ) -> None:
        self._root_key = root_key
        self._changed = changed
        self._port = port
        # by Job uid: when the status arrived, by the monotonic clock, and the status
        self._statuses: dict[str, tuple[float, Status]] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._polls: dict[str, asyncio.Task[None]] = {}
        # by Job uid: when the last request was sent, and the request
        self._requests: dict[str, tuple[float, SizeRequest]] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "RuntimeClient":
        self._session = aiohttp.ClientSession(
            timeout=TIMEOUT,
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._polls.values(), *self._calls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session:
            await self._session.close()

    def statuses(self) -> Mapping[str, Status]:
        """By Job uid: the statuses that are younger than STATUS_LIFETIME_S."""
        now = time.monotonic()
        return {
            uid: status
            for uid, (arrived, status) in self._statuses.items()
            if now - arrived <= STATUS_LIFETIME_S
        }

    def follow(self, endpoints: Iterable[Endpoint]) -> None:
        """Poll these runtimes and no others."""
        self._endpoints = {endpoint.uid: endpoint for endpoint in endpoints if endpoint.address}
        for uid in self._polls.keys() - self._endpoints.keys():
            self._polls.pop(uid).cancel()
            self._statuses.pop(uid, None)
            self._requests.pop(uid, None)
        for uid in self._endpoints.keys() - self._polls.keys():
            self._polls[uid] = asyncio.create_task(self._poll(uid))

    def request_size(self, endpoint: Endpoint, request: SizeRequest) -> None:
        """Send the request beside the caller. The answer becomes the runtime's status. A repetition
        within REPEAT_REQUEST_S is dropped."""
        now = time.monotonic()
        sent, last = self._requests.get(endpoint.uid, (0.0, None))
        is_same = last and (last.size, last.cession) == (request.size, request.cession)
        if is_same and now - sent < REPEAT_REQUEST_S:
            return
        self._requests[endpoint.uid] = (now, request)
        call = asyncio.create_task(
            self._call(endpoint, "PUT", contract.SIZE_PATH, contract.encode(request))
        )
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def poll_all(self) -> None:
        """Poll every followed runtime once; afterwards each has answered or failed to."""
        await asyncio.gather(
            *(
                self._call(endpoint, "GET", contract.STATUS_PATH)
                for endpoint in list(self._endpoints.values())
            )
        )

    async def _poll(self, uid: str) -> None:
        while endpoint := self._endpoints.get(uid):
            await self._call(endpoint, "GET", contract.STATUS_PATH)
            # short sleeps: a job that starts to cede meanwhile is polled at once
            waited_s = 0.0
            while waited_s < SLOW_POLL_S:
                await asyncio.sleep(FAST_POLL_S)
                waited_s += FAST_POLL_S
                if self._endpoints.get(uid, endpoint).is_changing:
                    break

    async def _call(self, endpoint: Endpoint, method: str, path: str, body: bytes = b"") -> None:
        """Keep the status that the runtime answers with. A runtime that does not answer, or whose
        answer is not signed by its namespace's key, keeps its old status until that expires."""
        root_key = self._root_key()
        if root_key is None or self._session is None:
            return
        key = contract.derive_key(root_key, endpoint.job[0])
        headers = contract.sign_request(
            key, method, path, endpoint.uid, secrets.token_hex(12), body, time.time()
        )
        url = f"http://{endpoint.address}:{self._port}{path}"
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as reply:
                status = _verified(endpoint, key, headers, reply, await _read_body(reply))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.info(
                "runtime did not answer",
                extra={"job": endpoint.job, "reason": str(error) or type(error).__name__},
            )
            return
        if status:
            self._keep(endpoint.uid, status)

    def _keep(self, uid: str, status: Status) -> None:
        before = self._statuses.get(uid)
        self._statuses[uid] = (time.monotonic(), status)
        if before is None or _what_matters(before[1]) != _what_matters(status):
            self._changed()


def _verified(
    endpoint: Endpoint,
    key: bytes,
    headers: Mapping[str, str],
    reply: aiohttp.ClientResponse,
    content: bytes,
) -> Status | None:
    """None for a refusal and for an answer with a wrong signature. Raises ValueError for a body
    that is no status."""
    signature = reply.headers.get(contract.SIGNATURE_HEADER, "")
    is_genuine = contract.reply_is_genuine(key, reply.status, headers, signature, content)
    if reply.status == 200 and is_genuine:
        return contract.decode_status(content)
    log.warning(
        "runtime refused",
        extra={
            "job": endpoint.job,
            "status": reply.status,
            "body": content[:200].decode(errors="replace"),
        },
    )
    return None


async def _read_body(reply: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises ValueError above MAX_REPLY_BYTES."""
    content = bytearray()
    async for part in reply.content.iter_any():
        content += part
        if len(content) > MAX_REPLY_BYTES:
            raise ValueError(f"the reply is more than {MAX_REPLY_BYTES} bytes")
    return bytes(content)


def _what_matters(status: Status) -> tuple[object, ...]:
    """What a plan depends on; the number of the step is not part of it."""
    return status.state, status.size, status.wanted, status.cession, status.parked
