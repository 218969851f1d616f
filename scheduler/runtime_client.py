"""Asks the jobs: signed HTTP to pod 0. The only file that talks to them."""

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
# between two questions to a job that is ceding, and to any other
BUSY_S = 0.1
QUIET_S = 2.0
# who was silent for so long says nothing
FORGET_S = 10.0
TIMEOUT = aiohttp.ClientTimeout(total=2.0, connect=1.0)
# bytes of a reply
LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """One job's runtime."""

    job: Key
    uid: str
    address: str
    # a take-back waits for it
    busy: bool = False


class Runtimes:
    """What every job's runtime said last. Calls run beside the loop; `changed` is called when one
    says something new."""

    def __init__(
        self,
        root: Callable[[], bytes | None],
        changed: Callable[[], None],
        port: int = contract.PORT,
    ) -> None:
        self._root = root
        self._changed = changed
        self._port = port
        self._said: dict[str, tuple[float, Status]] = {}
        self._targets: dict[str, Target] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked: dict[str, tuple[float, SizeRequest]] = {}
        # requests under way
        self._calls: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "Runtimes":
        self._session = aiohttp.ClientSession(
            timeout=TIMEOUT, connector=aiohttp.TCPConnector(limit=200), trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._tasks.values(), *self._calls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session:
            await self._session.close()

    def statuses(self) -> Mapping[str, Status]:
        """By Job uid, of those heard within `FORGET_S`."""
        now = time.monotonic()
        return {uid: status for uid, (at, status) in self._said.items() if now - at <= FORGET_S}

    def follow(self, targets: Iterable[Target]) -> None:
        """Keep asking exactly these."""
        self._targets = {target.uid: target for target in targets if target.address}
        for uid in self._tasks.keys() - self._targets.keys():
            self._tasks.pop(uid).cancel()
            self._said.pop(uid, None)
            self._asked.pop(uid, None)
        for uid in self._targets.keys() - self._tasks.keys():
            self._tasks[uid] = asyncio.create_task(self._poll(uid))

    def ask(self, job: Key, uid: str, address: str, wanted: SizeRequest) -> None:
        """Tell the runtime, beside the loop; what it answers is heard like any status. The same
        again at most once a second."""
        now = time.monotonic()
        at, last = self._asked.get(uid, (0.0, None))
        if last and (last.size, last.cession) == (wanted.size, wanted.cession) and now - at < 1.0:
            return
        self._asked[uid] = (now, wanted)
        call = asyncio.create_task(
            self._call(
                Target(job, uid, address), "PUT", contract.SIZE_PATH, contract.encode(wanted)
            )
        )
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)

    async def hear(self) -> None:
        """Every runtime that is followed has answered now, or not at all."""
        await asyncio.gather(
            *(
                self._call(target, "GET", contract.STATUS_PATH)
                for target in list(self._targets.values())
            )
        )

    async def _poll(self, uid: str) -> None:
        while target := self._targets.get(uid):
            await self._call(target, "GET", contract.STATUS_PATH)
            busy = self._targets.get(uid, target).busy
            # short naps: a job that starts ceding is asked at once
            for _ in range(1 if busy else round(QUIET_S / BUSY_S)):
                await asyncio.sleep(BUSY_S)
                if self._targets.get(uid, target).busy:
                    break

    async def _call(self, target: Target, method: str, path: str, body: bytes = b"") -> None:
        root = self._root()
        if root is None or self._session is None:
            return
        key = contract.derive_key(root, target.job[0])
        headers = contract.sign_request(
            key, method, path, target.uid, secrets.token_hex(12), body, time.time()
        )
        url = f"http://{target.address}:{self._port}{path}"
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as reply:
                content = await _whole(reply)
                signature = reply.headers.get(contract.SIGNATURE_HEADER, "")
                if reply.status != 200 or not contract.reply_is_genuine(
                    key, reply.status, headers, signature, content
                ):
                    refusal = content[:200].decode(errors="replace")
                    log.warning(
                        "runtime refused",
                        extra={"job": target.job, "status": reply.status, "said": refusal},
                    )
                    return
                status = contract.decode_status(content)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.info(
                "runtime did not answer",
                extra={"job": target.job, "reason": str(error) or type(error).__name__},
            )
            return
        before = self._said.get(target.uid)
        self._said[target.uid] = (time.monotonic(), status)
        if before is None or _matters(before[1]) != _matters(status):
            self._changed()


async def _whole(reply: aiohttp.ClientResponse) -> bytes:
    """Its body, however many pieces it came in. Raises ValueError for one past `LIMIT`."""
    content = bytearray()
    async for piece in reply.content.iter_any():
        content += piece
        if len(content) > LIMIT:
            raise ValueError(f"the reply is more than {LIMIT} bytes")
    return bytes(content)


def _matters(status: Status) -> tuple[object, ...]:
    """What a decision may turn on; a step more is no news."""
    return status.state, status.size, status.wanted, status.cession, status.parked
