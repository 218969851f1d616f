"""Polls the runtimes of the jobs and asks them for other sizes, each by any of its pods."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cede.api.objects import Key
from cede.api.surplus import Base
from elastic_runtime import contract
from elastic_runtime.contract import SizeRequest, Status
from scheduler import surplus
from scheduler.call_turns import MAX_CALLS, Requests, Turns
from scheduler.pod_order import NO_TRIES, Tries, in_order, note
from scheduler.poll_pauses import poll_pause_s
from scheduler.runtime_call import Answer, Call, Refusal, Silence, send
from scheduler.snapshot.observations import (
    Observed,
    forget_request,
    note_finish,
    note_leaderless,
    note_refusal,
    note_request,
    note_save,
    observe,
)
from scheduler.status_changes import Changes
from scheduler.status_changes import note as note_status

log = logging.getLogger("scheduler.runtime_client")
STATUS_LIFETIME_S = 10.0
"""A status older than this does not count."""
MAX_TRIES = 3
NOBODY = "none of its pods answers"
NO_KEY = "the scheduler has no key to sign with"
CALL_TIMEOUT_S = 4.0
"""Of one call: so many pods of the job at most are asked, and for so long together."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The runtime of one job."""

    job: Key
    uid: str
    # of its pods, in the order in which they are tried
    addresses: tuple[str, ...]
    # poll it fast: it will soon report something new
    is_changing: bool = False
    # how many pods its Job has
    size: int = 0
    # of a surplus, whose pods belong to the runtime of its base
    base: Base | None = None

    @property
    def runtime_uid(self) -> str:
        """With which requests are signed."""
        return self.base.job_uid if self.base else self.uid


class RuntimeClient:
    """The last status of every followed runtime. Calls run beside the caller.

    `changed` is called when a status changes in a way that matters for a plan, and `refused` when a
    pod does not accept our signature, and no other pod of its job that was asked does.
    """

    def __init__(
        self,
        root_keys: Callable[[], tuple[bytes, ...]],
        changed: Callable[[], None],
        port: int = contract.PORT,
        *,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._root_keys = root_keys
        self._changed = changed
        self._refused = refused
        self._port = port
        self._turns = Turns(MAX_CALLS)
        # by Job uid: when the status arrived, by the monotonic clock, and the status
        self._statuses: dict[str, tuple[float, Status]] = {}
        # by Job uid: what we saw of it since we follow it
        self._observations: dict[str, Observed] = {}
        # by Job uid: which of its statuses have woken the scheduler
        self._changes: dict[str, Changes] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._polls: dict[str, asyncio.Task[None]] = {}
        # by Job uid: set when the next poll should not wait
        self._hurry: dict[str, asyncio.Event] = {}
        self._requests = Requests()
        # by Job uid: which of its pods answered
        self._tries: dict[str, Tries] = {}
        self._calls: set[asyncio.Task[object]] = set()

    async def __aenter__(self) -> "RuntimeClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._polls.values(), *self._calls]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
        self._endpoints = {uid: endpoint for uid, endpoint in jobs.items() if endpoint.addresses}
        for uid in self._polls.keys() - self._endpoints.keys():
            self._polls.pop(uid).cancel()
            self._hurry.pop(uid)
            self._statuses.pop(uid, None)
            self._changes.pop(uid, None)
            self._requests.forget(uid)
        for uid in self._tries.keys() - self._endpoints.keys():
            del self._tries[uid]
        for uid, endpoint in self._endpoints.items():
            if uid not in self._polls:
                self._hurry[uid] = asyncio.Event()
                self._polls[uid] = asyncio.create_task(self._poll(uid))
            elif endpoint != before[uid] and (
                endpoint.is_changing or endpoint.addresses != before[uid].addresses
            ):
                self._hurry[uid].set()

    def request_size(self, endpoint: Endpoint, request: SizeRequest) -> None:
        """Send the request beside the caller. The answer becomes the runtime's status. A repetition
        within REPEAT_REQUEST_S, or before the answer, is dropped. It waits for no turn, because its
        deadline runs."""
        what = (request.size, request.cession)
        if self._requests.is_repeated(endpoint.uid, contract.SIZE_PATH, what):
            return
        known = self._observations.get(endpoint.uid)
        self._observations[endpoint.uid] = note_request(
            known, request.cession, request.size, time.time()
        )
        body = contract.encode(surplus.to_runtime(request, endpoint.base))
        call = self._call(endpoint, "PUT", contract.SIZE_PATH, body)
        self._requests.note(endpoint.uid, contract.SIZE_PATH, what, self._start(call))

    def request_save(self, endpoint: Endpoint, attempt: str) -> None:
        """Send the request beside the caller. A repetition as of `request_size` is dropped."""
        path = contract.CHECKPOINT_PATH
        if not self._requests.is_repeated(endpoint.uid, path, attempt):
            save = self._start(self._save(endpoint, attempt))
            self._requests.note(endpoint.uid, path, attempt, save)

    def report_finish(self, endpoint: Endpoint) -> None:
        """Send it to each pod beside the caller. The answers change nothing here."""
        known = self._observations.get(endpoint.uid)
        self._observations[endpoint.uid] = note_finish(known, time.time())
        for address in endpoint.addresses:
            self._start(self._report_finish(endpoint, address))

    async def _report_finish(self, endpoint: Endpoint, address: str) -> None:
        call = self._signed(endpoint, "POST", contract.FINISHED_PATH)
        async with self._turns.take(endpoint.job[0]):
            if call:
                await send(address, self._port, call)

    async def _save(self, endpoint: Endpoint, attempt: str) -> None:
        refusal = await self._call(endpoint, "POST", contract.CHECKPOINT_PATH)
        known = self._observations.get(endpoint.uid)
        self._observations[endpoint.uid] = note_save(known, attempt, refusal)

    def _start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
        self._calls.add(call := asyncio.create_task(work))
        call.add_done_callback(self._calls.discard)
        return call

    async def poll_all(self, timeout_s: float = 60.0) -> None:
        """Poll every followed runtime once; afterwards each has answered or failed to, or the time
        is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(
                    *(self._get_status(endpoint) for endpoint in list(self._endpoints.values()))
                )

    async def _get_status(self, endpoint: Endpoint) -> bool:
        async with self._turns.take(endpoint.job[0]):
            return not await self._call(endpoint, "GET", contract.STATUS_PATH)

    async def _poll(self, uid: str) -> None:
        clock = asyncio.get_running_loop().time
        changing_since: float | None = None
        failures = 0
        addresses = tuple[str, ...]()
        while endpoint := self._endpoints.get(uid):
            if not endpoint.is_changing:
                changing_since = None
            elif changing_since is None:
                changing_since = clock()
            hurry = self._hurry[uid]
            hurry.clear()
            answered = await self._get_status(endpoint)
            failures = 0 if answered or endpoint.addresses != addresses else failures + 1
            addresses = endpoint.addresses
            changing_s = None if changing_since is None else clock() - changing_since
            with suppress(TimeoutError):
                async with asyncio.timeout(poll_pause_s(failures, changing_s)):
                    await hurry.wait()

    async def _call(self, endpoint: Endpoint, method: str, path: str, body: bytes = b"") -> str:
        """Keep the status that the job answers with. Returns why there is none; empty if there is.

        A pod that does not answer, that knows no coordinator or that does not accept our signature
        is followed by another one, up to MAX_TRIES and CALL_TIMEOUT_S. A job of which none answers
        keeps its old status until that expires.
        """
        call = self._signed(endpoint, method, path, body)
        if call is None:
            return NO_KEY
        tries = self._tries.get(endpoint.uid, NO_TRIES)
        doubt, is_leaderless = "", False
        with suppress(TimeoutError):
            async with asyncio.timeout(CALL_TIMEOUT_S):
                for address in in_order(endpoint.addresses, tries)[:MAX_TRIES]:
                    answer = await send(address, self._port, call)
                    self._note(endpoint, address, answer)
                    match answer:
                        case Status():
                            return ""
                        case Refusal(is_final=True, message=message):
                            return message
                        case Refusal(message=message):
                            doubt = message
                        case Silence():
                            is_leaderless |= answer.is_leaderless
        known = self._observations.get(endpoint.uid)
        if doubt:
            self._observations[endpoint.uid] = note_refusal(known, doubt, time.time())
            self._refused()
        elif is_leaderless:
            self._observations[endpoint.uid] = note_leaderless(known)
        return doubt or NOBODY

    def _signed(self, endpoint: Endpoint, method: str, path: str, body: bytes = b"") -> Call | None:
        """None without a root key."""
        namespace = endpoint.job[0]
        keys = tuple(contract.derive_key(root_key, namespace) for root_key in self._root_keys())
        return Call(keys, endpoint.runtime_uid, method, path, body) if keys else None

    def _note(self, endpoint: Endpoint, address: str, answer: Answer) -> None:
        uid = endpoint.uid
        answered = isinstance(answer, Status)
        before = self._tries.get(uid, NO_TRIES)
        self._tries[uid] = note(before, address, endpoint.addresses, answered=answered)
        facts = {"job": endpoint.job, "address": address}
        match answer:
            case Status():
                self._keep(uid, surplus.from_runtime(answer, endpoint.base))
            case Silence(reason=reason):
                log.info("runtime did not answer", extra=facts | {"reason": reason})
            case Refusal(status, message):
                log.warning("runtime refused", extra=facts | {"status": status, "body": message})

    def _keep(self, uid: str, status: Status) -> None:
        now = time.monotonic()
        self._statuses[uid] = (now, status)
        self._observations[uid] = observe(self._observations.get(uid), status, time.time())
        self._changes[uid], wakes = note_status(self._changes.get(uid, Changes()), status, now)
        if wakes:
            self._changed()
