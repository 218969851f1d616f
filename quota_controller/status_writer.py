"""Tell: statuses that differ are written, and what is new in them, or was put back, is an event."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from cede.api import names
from cede.api.objects import ALLOCATIONS, POLICIES, Json, Key, Kind, version
from cede.api.policy import ClusterPolicy
from cede.kube import events
from cede.kube.client import ApiError, Client, Conflict, Invalid, NotFound
from cede.kube.gather import bounded
from quota_controller.apply import At, Edits
from quota_controller.desired.conflicts import Problems
from quota_controller.desired.kueue_objects import SHARED
from quota_controller.desired.plan import Plan, Seen
from quota_controller.status.allocation import allocation_statuses
from quota_controller.status.policy import policy_status, unsynced_policy_status

log = logging.getLogger("quota_controller")

PUT_BACK = "PutBack"
AGAIN_S = 60.0
"""An object that is edited again and again is told of no more often than this."""


class Teller:
    """The telling voice. It remembers its last words, which the watches may not have shown yet."""

    def __init__(self, client: Client, wrote: Callable[[Kind, Key, Json], None]) -> None:
        self.client = client
        self.wrote = wrote
        # version of the last status
        self._written: dict[tuple[Kind, Key], int] = {}
        # when an edit of this object was told last
        self._told: dict[At, float] = {}

    async def report(
        self, seen: Seen, decided: Plan, clashes: Problems, edits: Edits, now: float
    ) -> None:
        """The statuses say what holds; whose objects were edited hears of it."""
        told = allocation_statuses(decided, seen, clashes, now)
        await bounded(
            self._tell(ALLOCATIONS, a, told[a.metadata.name], now) for a in seen.allocations
        )
        if seen.policy and (of_policy := policy_status(decided, seen, clashes, now)):
            await self._tell(POLICIES, seen.policy, of_policy, now)
        await self._tell_edits(seen, edits, now)

    async def report_deaf(
        self, policy: ClusterPolicy, troubles: Mapping[str, str], now: float
    ) -> None:
        """The policy says which kinds cannot be read, while nothing else can be said."""
        await self._tell(POLICIES, policy, unsynced_policy_status(policy, troubles, now), now)

    async def _tell(self, kind: Kind, of: Any, new: Any, now: float) -> None:
        """Writes a status that differs, and an event when Ready says something new."""
        if new == of.status or self._written.get((kind, of.metadata.key), 0) > int(
            of.metadata.resourceVersion or 0
        ):
            return
        meta = {"name": of.metadata.name}
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": meta,
            "status": without_empty(new.model_dump()),
        }
        try:
            written = await self.client.apply(kind, of.metadata.key, body, subresource="status")
        except (NotFound, Conflict):
            return
        except Invalid as error:
            # ours, and no reason to tell nobody else anything
            log.error(
                "status refused",
                extra={"kind": kind.kind, "object": of.metadata.name, "why": error.message},
            )
            return
        self._written[kind, of.metadata.key] = version(written)
        self.wrote(kind, of.metadata.key, written)
        before = _ready(of.status.conditions)
        after = _ready(new.conditions)
        news = (before.get("reason"), before.get("message")) != (after["reason"], after["message"])
        if news and after["status"] != "Unknown":
            log.info(
                "ready",
                extra={
                    "kind": kind.kind,
                    "object": of.metadata.name,
                    "ready": after["status"],
                    "why": after["message"],
                },
            )
            await self._event(
                kind, of, after["reason"], after["message"], now, warning=after["status"] == "False"
            )

    async def _tell_edits(self, seen: Seen, edits: Edits, now: float) -> None:
        self._told = {at: when for at, when in self._told.items() if now - when < AGAIN_S}
        whose: dict[str, tuple[Kind, Any]] = {
            a.metadata.name: (ALLOCATIONS, a) for a in seen.allocations
        }
        if seen.policy:
            whose[SHARED] = (POLICIES, seen.policy)
        for at, (owner, sentence) in edits.items():
            log.warning("put back", extra={"owner": owner, "why": sentence})
            if at not in self._told and owner in whose:
                self._told[at] = now
                kind, of = whose[owner]
                await self._event(kind, of, PUT_BACK, sentence, now, warning=True)

    async def _event(
        self, kind: Kind, of: Any, reason: str, note: str, now: float, *, warning: bool
    ) -> None:
        regarding = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": of.metadata.name,
            "uid": of.metadata.uid,
        }
        # an event is a courtesy
        with suppress(ApiError):
            await events.record(
                self.client,
                manager=names.QUOTA_CONTROLLER,
                regarding=regarding,
                reason=reason,
                note=note,
                now=now,
                type_="Warning" if warning else "Normal",
            )


def without_empty(said: Any) -> Any:
    """Without empty maps: applied in place of a map that we filled, the server makes `null` of one,
    and refuses it."""
    if isinstance(said, dict):
        return {key: without_empty(value) for key, value in said.items() if value != {}}
    return [without_empty(one) for one in said] if isinstance(said, list) else said


def _ready(conditions: list[Json]) -> Json:
    return next((c for c in conditions if c["type"] == names.READY), {})
