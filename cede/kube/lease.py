"""One leader, by a Lease, after client-go's rules (tools/leaderelection)."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from cede.api.kueue import Lease
from cede.api.objects import LEASES, Json, Key, rfc3339
from cede.kube.client import Client
from cede.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

log = logging.getLogger(__name__)


class LostLease(Exception):
    """We no longer lead: exit the process, another may lead already."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds; client-go's defaults. `deadline_s` < `duration_s`: we stop before another may
    start."""

    duration_s: float = 15.0
    deadline_s: float = 10.0
    # and up to a fifth more, so that candidates do not march in step
    retry_s: float = 2.0

    def pause_s(self) -> float:
        return self.retry_s * random.uniform(1.0, 1.2)  # noqa: S311


async def lead(
    client: Client,
    key: Key,
    identity: str,
    work: Callable[[], Awaitable[None]],
    *,
    times: Times | None = None,
    leading: Callable[[bool], None] = lambda _: None,
) -> None:
    """Wait for the lead, run `work` while it is ours, and release it when `work` ends or is
    cancelled.

    Raises LostLease when the lease could not be renewed in time; `work` is cancelled first.
    """
    candidate = _Candidate(client, key, identity, times or Times())
    await candidate.acquire()
    log.info("leading", extra={"lease": key[1], "identity": identity})
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
        for task in (working, renewing):
            task.cancel()
            # the first failure is already on its way
            with suppress(asyncio.CancelledError, Exception):
                await task
        await candidate.release()


class _Candidate:
    def __init__(self, client: Client, key: Key, identity: str, times: Times) -> None:
        self.client = client
        self.key = key
        self.identity = identity
        self.times = times
        # the record's version, and our own clock when it was first seen
        self._seen: tuple[str, float] = ("", 0.0)
        # as last read
        self._holder = ""
        # our own clock before the last write that made the lease ours: others count from after it
        self._renewed = 0.0

    async def acquire(self) -> None:
        while not await self._try(self.times.deadline_s):  # noqa: ASYNC110  what we wait for happens in another process
            await asyncio.sleep(self.times.pause_s())

    async def renew_until_lost(self) -> str:
        """Returns why the lease is not ours any more."""
        clock = asyncio.get_running_loop().time
        while (left := self._renewed + self.times.deadline_s - clock()) > 0:
            await asyncio.sleep(min(self.times.pause_s(), left))
            left = self._renewed + self.times.deadline_s - clock()
            if left > 0 and not await self._try(left) and self._holder not in ("", self.identity):
                return f"{self.key[1]} was taken over by {self._holder}"
        return f"{self.key[1]} was not renewed within {self.times.deadline_s} s"

    async def release(self) -> None:
        """An empty holder with a lease of one second: the next one starts at once. Best effort."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(2):
                raw = await self.client.get(LEASES, dict, self.key)
                if raw["spec"].get("holderIdentity") == self.identity:
                    await self.client.replace(LEASES, self.key, self._body(raw, "", 1.0))

    async def _try(self, limit_s: float) -> bool:
        """Whether the lease is ours after this attempt. Any error, and silence for `limit_s`, is a
        failed attempt."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(limit_s):
                ours = await self._attempt()
        except (AlreadyExists, Conflict):
            # another was quicker
            return False
        except (ApiError, TimeoutError) as error:
            log.warning(
                "lease not reached",
                extra={"lease": self.key[1], "reason": str(error) or type(error).__name__},
            )
            return False
        if ours:
            self._renewed = began
        return ours

    async def _attempt(self) -> bool:
        try:
            raw: Json = await self.client.get(LEASES, dict, self.key)
        except NotFound:
            await self.client.create(
                LEASES, self._body({}, self.identity, self.times.duration_s), namespace=self.key[0]
            )
            return True
        self._holder = raw["spec"].get("holderIdentity") or ""
        if self._holder not in ("", self.identity) and not self._expired(raw):
            return False
        await self.client.replace(
            LEASES, self.key, self._body(raw, self.identity, self.times.duration_s)
        )
        self._holder = self.identity
        return True

    def _expired(self, raw: Json) -> bool:
        """By our own clock since the record last changed: remote clocks prove nothing."""
        now = asyncio.get_running_loop().time()
        version = raw["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] >= float(
            raw["spec"].get("leaseDurationSeconds") or self.times.duration_s
        )

    def _body(self, old: Json, holder: str, duration_s: float) -> Json:
        now = rfc3339(time.time(), micro=True)
        spec = old.get("spec", {})
        changed = spec.get("holderIdentity") != holder
        metadata = {"name": self.key[1], "namespace": self.key[0]}
        if version := old.get("metadata", {}).get("resourceVersion"):
            metadata["resourceVersion"] = version
        return {
            "metadata": metadata,
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": max(1, round(duration_s)),
                "acquireTime": now if changed else spec.get("acquireTime", now),
                "renewTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions", 0))
                + (1 if changed and holder and spec else 0),
            },
        }


__all__ = ["Lease", "LostLease", "Times", "lead"]
