"""The reflector: a live copy of one Kind, kept by list and watch, forever."""

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from cede.api.objects import Json, Key, Kind, Meta, Projection
from cede.kube.client import Client
from cede.kube.errors import ApiError, Forbidden, Gone, NotFound, TooManyRequests, Unreadable
from cede.kube.expectations import WHOLE_KIND, Expectations

P = TypeVar("P")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Backoff:
    """client-go's: doubled from `first_s` to `most_s`, jittered down to half; a watch that held
    `healthy_s` starts over."""

    first_s: float = 0.8
    most_s: float = 30.0
    healthy_s: float = 120.0
    # a watch that ends sooner than this has failed, whatever it brought
    short_s: float = 1.0

    def seconds(self, failures: int) -> float:
        return random.uniform(0.5, 1.0) * min(self.most_s, self.first_s * 2.0 ** min(failures, 16))  # noqa: S311


def meta(found: Projection | Json) -> Meta:
    """The metadata of a projection, or of a raw object as far as a cache needs it."""
    if isinstance(found, dict):
        raw = found["metadata"]
        return Meta(
            name=raw["name"],
            namespace=raw.get("namespace", ""),
            resourceVersion=raw.get("resourceVersion", ""),
        )
    return found.metadata


class Cache(Generic[P]):
    """`objects` is the cluster's state as last heard; `synced` is set once it has been heard whole.
    `changed` is called on every change,
    and when what was never heard has new `trouble`."""

    def __init__(
        self,
        client: Client,
        kind: Kind,
        cls: type[P],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        changed: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
        expectations: Expectations | None = None,
    ) -> None:
        self._client = client
        self.kind = kind
        self._cls = cls
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._changed, self._backoff = changed, backoff or Backoff()
        self._objects: dict[Key, P] = {}
        self._version = ""
        self.synced = asyncio.Event()
        self._expectations = expectations
        # why nothing will be heard until somebody acts: the kind is not there, or not for us
        self.trouble = ""

    @property
    def objects(self) -> Mapping[Key, P]:
        return MappingProxyType(self._objects)

    def all(self) -> list[P]:
        return list(self._objects.values())

    def get(self, key: Key) -> P | None:
        return self._objects.get(key)

    async def run(self) -> None:
        """Forever. Whatever the server does, the copy is kept or rebuilt and the next try waits its
        turn."""
        failures = 0
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            wait = 0.0
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                if clock() - began >= self._backoff.short_s:
                    failures = 0
                    continue
                reason = "the watch ended at once"
            except (Gone, Unreadable) as error:
                # the same history would break us again: a list tells how things are now
                self._version = ""
                reason = str(error)
            except ApiError as error:
                reason = str(error)
                wait = error.retry_after_s if isinstance(error, TooManyRequests) else 0.0
                if isinstance(error, NotFound | Forbidden):
                    self._troubled(reason)
            if clock() - began >= self._backoff.healthy_s:
                failures = 0
            wait = max(wait, self._backoff.seconds(failures))
            failures += 1
            log.warning(
                "watch broke",
                extra={"kind": self.kind.plural, "reason": reason, "again_in_s": round(wait, 2)},
            )
            await asyncio.sleep(wait)

    async def _list(self) -> None:
        """The whole, page by page into a copy, then swapped in: deletions in a gap are seen
        here."""
        items, version = await self._client.list(
            self.kind,
            self._cls,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
        )
        fresh = {meta(item).key: item for item in items}  # type: ignore[arg-type]  # P is bound by use: what a server sends has metadata
        differs = fresh != self._objects or not self.synced.is_set()
        self._objects = fresh
        self._version = version
        self.synced.set()
        self.trouble = ""
        if differs:
            self._news(WHOLE_KIND, version)
            self._changed()

    def _troubled(self, reason: str) -> None:
        if reason != self.trouble and not self.synced.is_set():
            self.trouble = reason
            self._news(WHOLE_KIND, reason)
            self._changed()

    def _news(self, key: Key, version: str) -> bool:
        return self._expectations is None or self._expectations.observe(key, version)

    async def _watch(self) -> None:
        """Events until the server ends the stream."""
        events = self._client.watch(
            self.kind,
            self._cls,
            version=self._version,
            initial=False,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
        )
        async for event in events:
            self._version = event.version or self._version
            if event.object is None:
                continue
            key = meta(event.object).key  # type: ignore[arg-type]
            if event.type == "DELETED":
                self._objects.pop(key, None)
                if self._expectations:
                    self._expectations.observe_deletion(key)
            else:
                self._objects[key] = event.object
                if not self._news(key, meta(event.object).resourceVersion):  # type: ignore[arg-type]
                    continue
            self._changed()
