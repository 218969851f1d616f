"""Elects one leader by a Lease, with the rules of client-go (tools/leaderelection).

A leader that finishes no pass releases the Lease too. The time of its last whole pass is in the
Lease, for those who watch it.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from cede.api import names
from cede.api.objects import LEASES, Json, Key, rfc3339
from cede.api.unreadable import UnreadableObjects
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from cede.kube.progress import Progress

log = logging.getLogger(__name__)
RELEASE_TIMEOUT_S = 2.0
RELEASED_DURATION_S = 1.0


class LostLease(Exception):
    """We do not lead any more, and our work has been cancelled: another one may lead already."""


class Stalled(LostLease):
    """We led and finished no pass for too long. A new process may do better."""


@dataclass(frozen=True, slots=True)
class Times:
    """By default those of client-go. We stop after `deadline_s`, before another may start."""

    duration_s: float = 15.0
    deadline_s: float = 10.0
    retry_s: float = 2.0

    def pause_s(self) -> float:
        """`retry_s` and up to a fifth more, so that candidates do not all try at the same time."""
        return self.retry_s * random.uniform(1.0, 1.2)  # noqa: S311


async def lead(
    client: Client,
    key: Key,
    identity: str,
    work: Callable[[], Awaitable[None]],
    *,
    progress: Progress,
    times: Times | None = None,
    leading: Callable[[bool], None] = lambda _: None,
    unreadable: Callable[[], UnreadableObjects] = UnreadableObjects,
) -> None:
    """Waits until we lead, then runs `work`; releases the lease when `work` ends or is cancelled.

    `leading` is called when we begin and when we stop to lead. `unreadable` returns what this
    process cannot read; the Lease has it as an annotation. Raises LostLease when the lease could
    not be renewed in time, and Stalled without progress; `work` is cancelled first.
    """
    candidate = _Candidate(client, key, identity, times or Times(), progress, unreadable)
    await candidate.acquire()
    log.info("leading", extra={"lease": key[1], "identity": identity})
    progress.begin()
    leading(True)
    working = asyncio.ensure_future(work())
    renewing = asyncio.create_task(candidate.renew_until_lost())
    try:
        await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise LostLease(renewing.result())
        working.result()
    finally:
        leading(False)
        working.cancel()
        renewing.cancel()
        try:
            # Their first failure is being raised already. If we are cancelled here, this raises.
            await asyncio.gather(working, renewing, return_exceptions=True)
        finally:
            await candidate.release()


class _Candidate:
    """All times are of the event loop's clock: the clocks of other machines prove nothing."""

    def __init__(
        self,
        client: Client,
        key: Key,
        identity: str,
        times: Times,
        progress: Progress,
        unreadable: Callable[[], UnreadableObjects],
    ) -> None:
        self.client = client
        self.key = key
        self.identity = identity
        self.times = times
        self.progress = progress
        self.unreadable = unreadable
        # what we wrote last, to renew it without reading it; empty if somebody else wrote since
        self._written: Json = {}
        # the version of the record that was read last, and when we first read it
        self._version = ""
        self._version_since = 0.0
        # in the record that was read last
        self._holder = ""
        # The time before our last successful write; others count from a later time.
        self._renewed = 0.0

    async def acquire(self) -> None:
        # another process releases the lease, so there is nothing to wait for but time
        while not await self._try(self.times.deadline_s):  # noqa: ASYNC110
            await asyncio.sleep(self.times.pause_s())

    async def renew_until_lost(self) -> str:
        """Returns why the lease is not ours any more. Raises Stalled if it should not be ours."""
        while (remaining_s := self._remaining_s()) > 0:
            if self.progress.is_stalled:
                raise Stalled(f"no pass was finished within {self.progress.limit_s} s")
            await asyncio.sleep(min(self.times.pause_s(), remaining_s))
            remaining_s = self._remaining_s()
            if remaining_s <= 0 or await self._try(remaining_s):
                continue
            if self._holder not in ("", self.identity):
                return f"{self.key[1]} was taken over by {self._holder}"
        return f"{self.key[1]} was not renewed within {self.times.deadline_s} s"

    def _remaining_s(self) -> float:
        """Seconds until we must stop unless the lease is renewed."""
        return self._renewed + self.times.deadline_s - asyncio.get_running_loop().time()

    async def release(self) -> None:
        """Lets the next leader start at once, if the server can be reached: no holder, 1 s."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                lease = await self.client.get(LEASES, dict, self.key)
                if lease["spec"].get("holderIdentity") == self.identity:
                    body = self._body(lease, "", RELEASED_DURATION_S)
                    await self.client.replace(LEASES, self.key, body)

    async def _try(self, timeout_s: float) -> bool:
        """Whether the lease is ours after this attempt. An error or a timeout is a failure."""
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                ours = await self._attempt()
        except (AlreadyExists, Conflict):
            # another candidate was faster
            return False
        except (ApiError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            log.warning("lease not renewed", extra={"lease": self.key[1], "reason": reason})
            return False
        if ours:
            self._renewed = started
        return ours

    async def _attempt(self) -> bool:
        duration_s = self.times.duration_s
        if self._written:
            with suppress(Conflict):
                body = self._body(self._written, self.identity, duration_s)
                self._written = await self.client.replace(LEASES, self.key, body)
                return True
            self._written = {}
        try:
            lease: Json = await self.client.get(LEASES, dict, self.key)
        except NotFound:
            body = self._body({}, self.identity, duration_s)
            self._written = await self.client.create(LEASES, body, namespace=self.key[0])
            return True
        self._holder = lease["spec"].get("holderIdentity") or ""
        if self._holder not in ("", self.identity) and not self._expired(lease):
            return False
        body = self._body(lease, self.identity, duration_s)
        self._written = await self.client.replace(LEASES, self.key, body)
        self._holder = self.identity
        return True

    def _expired(self, lease: Json) -> bool:
        """Whether the record has not changed for its duration, by our own clock."""
        now = asyncio.get_running_loop().time()
        version = lease["metadata"]["resourceVersion"]
        if self._version != version:
            self._version = version
            self._version_since = now
        duration_s = lease["spec"].get("leaseDurationSeconds") or self.times.duration_s
        return now - self._version_since >= float(duration_s)

    def _body(self, old: Json, holder: str, duration_s: float) -> Json:
        now = rfc3339(time.time(), micro=True)
        spec = old.get("spec", {})
        changes_holder = spec.get("holderIdentity") != holder
        transitions = int(spec.get("leaseTransitions", 0))
        if changes_holder and holder and spec:
            transitions += 1
        metadata: Json = {"name": self.key[1], "namespace": self.key[0]}
        old_metadata = old.get("metadata", {})
        if version := old_metadata.get("resourceVersion"):
            metadata["resourceVersion"] = version
        if annotations := self._annotations(old_metadata):
            metadata["annotations"] = annotations
        return {
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": max(1, round(duration_s)),
                "acquireTime": now if changes_holder else spec.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": transitions,
            },
        }

    def _annotations(self, old_metadata: Json) -> dict[str, str]:
        """The time of the last pass is that of an earlier leader until our first one ends."""
        annotations: dict[str, str] = dict(old_metadata.get("annotations") or {})
        annotations.pop(names.UNREADABLE, None)
        if note := self.unreadable().note:
            annotations[names.UNREADABLE] = note
        if self.progress.last_pass:
            annotations[names.LAST_PASS] = rfc3339(self.progress.last_pass, micro=True)
        return annotations
