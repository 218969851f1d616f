"""Polls the runtimes of the jobs and asks them for other sizes: signed HTTP to pod 0 of a job."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import aiohttp
from prometheus_client import Counter

from cede.api.objects import Key
from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, Status
from scheduler.snapshot.observations import Observed, forget_request, note_request, observe

log = logging.getLogger("scheduler.runtime_client")
FAST_POLL_S = 0.1
"""Between two polls of a job that is changing."""
MAX_FAST_S = 60.0
"""A job that is still changing after this time is polled once a second."""
LATE_POLL_S = 1.0
SLOW_POLL_S = 2.0
"""Between two polls of any other job."""
PATIENT_FAILURES = 5
"""A runtime that has just started does not answer yet: only then do the pauses grow."""
MAX_SILENT_POLL_S = 16.0
"""Between two polls of an address that does not answer; the pause doubles up to this."""
STATUS_LIFETIME_S = 10.0
"""A status older than this does not count."""
REPEAT_REQUEST_S = 1.0
"""The same request is not sent again within this time."""
TIMEOUT = aiohttp.ClientTimeout(total=2.0, sock_connect=1.0)
MAX_CALLS = 200
"""At once. A call that waits for its turn does not time out."""
MAX_REPLY_BYTES = 64 << 10
"""Of a status, whose texts are bounded. All calls at once fit into the memory of the scheduler."""
UNAUTHORIZED = 401
CALLS = Counter(
    "cede_runtime_calls_total",
    "Calls to runtimes: status polls (GET) and size requests (PUT), by result.",
    ["method", "result"],
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The runtime of one job."""

    job: Key
    uid: str
    address: str
    # poll it fast: it will soon report something new
    is_changing: bool = False
    # how many pods its Job has
    size: int = 0


class RuntimeClient:
    """The last status of every followed runtime. Calls run beside the caller.

    `changed` is called when a status changes in a way that matters for a plan, and `refused` when a
    runtime does not accept our signature.
    """

    def __init__(
        self,
        root_key: Callable[[], bytes | None],
        changed: Callable[[], None],
        port: int = contract.PORT,
        *,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._root_key = root_key
        self._changed = changed
        self._refused = refused
        self._port = port
        self._turns = asyncio.Semaphore(MAX_CALLS)
        # by Job uid: when the status arrived, by the monotonic clock, and the status
        self._statuses: dict[str, tuple[float, Status]] = {}
        # by Job uid: what we saw of it since we follow it
        self._observations: dict[str, Observed] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._polls: dict[str, asyncio.Task[None]] = {}
        # by Job uid: set when the next poll should not wait
        self._hurry: dict[str, asyncio.Event] = {}
        # by Job uid: when the last request was sent, and the request
        self._requests: dict[str, tuple[float, SizeRequest]] = {}
        self._calls: set[asyncio.Task[bool]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "RuntimeClient":
        self._session = aiohttp.ClientSession(
            timeout=TIMEOUT,
            connector=aiohttp.TCPConnector(limit=0),
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

    def observations(self) -> Mapping[str, Observed]:
        """By Job uid."""
        return dict(self._observations)

    def follow(self, endpoints: Iterable[Endpoint]) -> None:
        """Poll these runtimes and no others. What was observed of a job is kept while it has no
        address."""
        jobs = {endpoint.uid: endpoint for endpoint in endpoints}
        for uid in self._observations.keys() - jobs.keys():
            del self._observations[uid]
        for uid, observed in self._observations.items():
            self._observations[uid] = forget_request(observed, jobs[uid].size)
        before = self._endpoints
        self._endpoints = {uid: endpoint for uid, endpoint in jobs.items() if endpoint.address}
        for uid in self._polls.keys() - self._endpoints.keys():
            self._polls.pop(uid).cancel()
            self._hurry.pop(uid)
            self._statuses.pop(uid, None)
            self._requests.pop(uid, None)
        for uid, endpoint in self._endpoints.items():
            if uid not in self._polls:
                self._hurry[uid] = asyncio.Event()
                self._polls[uid] = asyncio.create_task(self._poll(uid))
            elif endpoint != before[uid] and (
                endpoint.is_changing or endpoint.address != before[uid].address
            ):
                self._hurry[uid].set()

    def request_size(self, endpoint: Endpoint, request: SizeRequest) -> None:
        """Send the request beside the caller. The answer becomes the runtime's status. A repetition
        within REPEAT_REQUEST_S is dropped."""
        now = time.monotonic()
        sent, last = self._requests.get(endpoint.uid, (0.0, None))
        is_same = last and (last.size, last.cession) == (request.size, request.cession)
        if is_same and now - sent < REPEAT_REQUEST_S:
            return
        self._requests[endpoint.uid] = (now, request)
        known = self._observations.get(endpoint.uid)
        self._observations[endpoint.uid] = note_request(
            known, request.cession, request.size, time.time()
        )
        call = asyncio.create_task(
            self._call(endpoint, "PUT", contract.SIZE_PATH, contract.encode(request))
        )
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def poll_all(self, timeout_s: float = 60.0) -> None:
        """Poll every followed runtime once; afterwards each has answered or failed to, or the time
        is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(
                    *(self._get_status(endpoint) for endpoint in list(self._endpoints.values()))
                )

    async def _get_status(self, endpoint: Endpoint) -> bool:
        async with self._turns:
            return await self._call(endpoint, "GET", contract.STATUS_PATH)

    async def _poll(self, uid: str) -> None:
        clock = asyncio.get_running_loop().time
        changing_since: float | None = None
        failures = 0
        address = ""
        while endpoint := self._endpoints.get(uid):
            if not endpoint.is_changing:
                changing_since = None
            elif changing_since is None:
                changing_since = clock()
            hurry = self._hurry[uid]
            hurry.clear()
            answered = await self._get_status(endpoint)
            failures = 0 if answered or endpoint.address != address else failures + 1
            address = endpoint.address
            changing_s = None if changing_since is None else clock() - changing_since
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_pause_s(failures, changing_s)):
                    await hurry.wait()

    async def _call(self, endpoint: Endpoint, method: str, path: str, body: bytes = b"") -> bool:
        """Keep the status that the runtime answers with; False if there is none. A runtime that
        does not answer, or whose answer is not signed by its namespace's key, keeps its old status
        until that expires."""
        root_key = self._root_key()
        if root_key is None or self._session is None:
            return False
        key = contract.derive_key(root_key, endpoint.job[0])
        headers = contract.sign_request(
            key, method, path, endpoint.uid, secrets.token_hex(12), body, time.time()
        )
        url = runtime_url(endpoint.address, self._port, path)
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as reply:
                if reply.status == UNAUTHORIZED:
                    self._refused()
                status = _verified(endpoint, key, headers, reply, await _read_body(reply))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.info(
                "runtime did not answer",
                extra={"job": endpoint.job, "reason": str(error) or type(error).__name__},
            )
            CALLS.labels(method, "silent").inc()
            return False
        CALLS.labels(method, "answered" if status else "refused").inc()
        if status is None:
            return False
        self._keep(endpoint.uid, status)
        return True

    def _keep(self, uid: str, status: Status) -> None:
        before = self._statuses.get(uid)
        self._statuses[uid] = (time.monotonic(), status)
        self._observations[uid] = observe(self._observations.get(uid), status, time.time())
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


def runtime_url(address: str, port: int, path: str) -> str:
    """An IPv6 address stands in brackets (RFC 3986)."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}{path}"


def poll_pause_s(failures: int, changing_s: float | None) -> float:
    """Seconds until the next poll, after so many failures in a row; `changing_s` is how long the
    job has been changing, None if it is not."""
    if failures > PATIENT_FAILURES:
        silent_s = SLOW_POLL_S * 2.0 ** min(failures - PATIENT_FAILURES, 10)
        return LATE_POLL_S if changing_s is not None else min(MAX_SILENT_POLL_S, silent_s)
    if changing_s is None:
        return SLOW_POLL_S
    return FAST_POLL_S if changing_s < MAX_FAST_S else LATE_POLL_S


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
