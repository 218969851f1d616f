"""One leader, by a Lease, after client-go's rules (tools/leaderelection)."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from cede.api.kueue import Lease
from cede.api.objects import LEASES, Json, Key, rfc3339
from cede.kube.client import AlreadyExists, ApiError, Client, Conflict, NotFound

log = logging.getLogger(__name__)


class LostLease(Exception):
    """We no longer lead: exit the process, another may lead already."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds; client-go's defaults. `deadline_s` < `duration_s`: we stop before another may start."""

    duration_s: float = 15.0
    deadline_s: float = 10.0
    retry_s: float = 2.0


async def lead(
    client: Client, key: Key, identity: str, work: Callable[[], Awaitable[None]], *, times: Times | None = None,
    leading: Callable[[bool], None] = lambda _: None,
) -> None:  # fmt: skip
    """Wait for the lead, run `work` while it is ours, and release it when `work` ends or is cancelled.

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
            raise LostLease(f"{key[1]} was not renewed within {candidate.times.deadline_s} s")
        working.result()
    finally:
        leading(False)
        for task in (working, renewing):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):  # the first failure is already on its way
                await task
        await candidate.release()


class _Candidate:
    def __init__(self, client: Client, key: Key, identity: str, times: Times) -> None:
        self.client, self.key, self.identity, self.times = client, key, identity, times
        self._seen: tuple[str, float] = ("", 0.0)  # the record's version, and our own clock when it was first seen

    async def acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110  what we wait for happens in another process
            await asyncio.sleep(self.times.retry_s)

    async def renew_until_lost(self) -> None:
        clock = asyncio.get_running_loop().time
        renewed = clock()
        while clock() - renewed < self.times.deadline_s:
            await asyncio.sleep(min(self.times.retry_s, max(0.0, renewed + self.times.deadline_s - clock())))
            with suppress(TimeoutError):
                if await asyncio.wait_for(self._try(), max(0.01, renewed + self.times.deadline_s - clock())):
                    renewed = clock()

    async def release(self) -> None:
        """An empty holder with a lease of one second: the next one starts at once. Best effort."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(2):
                raw = await self.client.get(LEASES, dict, self.key)
                if raw["spec"].get("holderIdentity") == self.identity:
                    await self.client.replace(LEASES, self.key, self._body(raw, "", 1.0))

    async def _try(self) -> bool:
        """Whether the lease is ours after this attempt. Any error is a failed attempt."""
        try:
            raw: Json = await self.client.get(LEASES, dict, self.key)
        except NotFound:
            with suppress(AlreadyExists, ApiError):
                await self.client.create(LEASES, self._body({}, self.identity, self.times.duration_s), namespace=self.key[0])
                return True
            return False
        except ApiError as error:
            log.warning("lease not read", extra={"reason": str(error)})
            return False
        holder = raw["spec"].get("holderIdentity") or ""
        if holder not in ("", self.identity) and not self._expired(raw):
            return False
        try:
            await self.client.replace(LEASES, self.key, self._body(raw, self.identity, self.times.duration_s))
        except Conflict:
            return False
        except ApiError as error:
            log.warning("lease not written", extra={"reason": str(error)})
            return False
        return True

    def _expired(self, raw: Json) -> bool:
        """By our own clock since the record last changed: remote clocks prove nothing."""
        now, version = asyncio.get_running_loop().time(), raw["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] >= float(raw["spec"].get("leaseDurationSeconds") or self.times.duration_s)

    def _body(self, old: Json, holder: str, duration_s: float) -> Json:
        now, spec = rfc3339(time.time(), micro=True), old.get("spec", {})
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
                "leaseTransitions": int(spec.get("leaseTransitions", 0)) + (1 if changed and holder and spec else 0),
            },
        }


__all__ = ["Lease", "LostLease", "Times", "lead"]
