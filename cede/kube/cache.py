"""Keeps a live copy of all objects of one kind, by list and watch."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from prometheus_client import Gauge

from cede.api.objects import Json, Key, Kind, Meta, Projection
from cede.kube.backoff import Backoff
from cede.kube.client import MUTE_S, Client
from cede.kube.decoding import WatchEvent
from cede.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unreachable,
    Unreadable,
)
from cede.kube.expectations import WHOLE_KIND, Expectations

P = TypeVar("P")
log = logging.getLogger(__name__)
# A server that starts refuses lists for a few seconds; these take about ten.
REFUSALS_UNTIL_TROUBLE = 5
UNREADABLE = Gauge(
    "cede_cache_unreadable_objects", "Objects that are kept as they last were.", ["kind"]
)


def metadata_of(obj: Projection | Json) -> Meta:
    """The metadata of a decoded object, or those of a raw object that a cache needs."""
    if isinstance(obj, dict):
        raw = obj["metadata"]
        return Meta(
            name=raw["name"],
            namespace=raw.get("namespace", ""),
            resourceVersion=raw.get("resourceVersion", ""),
        )
    return obj.metadata


class Cache(Generic[P]):
    """The copy of one kind, or of the part of it that the selectors select.

    `synced` is set once all objects have been read. An object that cannot be read is kept as it
    last was, and is in `unreadable`: it affects no other. `changed` is called after every change,
    and when `trouble` changes before the first list. With `expectations`, `changed` is not called
    for our own writes, and with `is_same` not for a version that is the same as the one before.
    With `is_optional`, a kind that does not exist has no objects.
    """

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
        is_same: Callable[[P, P], bool] = lambda before, after: False,
        is_optional: bool = False,
    ) -> None:
        self._client = client
        self.kind = kind
        self._cls = cls
        self._selection = {"namespace": namespace, "labels": labels, "fields": fields}
        self._changed = changed
        self._backoff = backoff or Backoff()
        self._expectations = expectations
        self._is_same = is_same
        self._is_optional = is_optional
        self._objects: dict[Key, P] = {}
        # by key: why the object cannot be read
        self._unreadable: dict[Key, str] = {}
        # to watch from; empty: list first
        self._version = ""
        self._appears = asyncio.Event()
        # when the server last sent anything, by the event loop's clock
        self._last_sign = float("-inf")
        self.synced = asyncio.Event()
        # how often in a row the API server refused the first list
        self._refusals = 0
        # why no first list succeeds until somebody acts: the kind does not exist, we may not read
        # it, or the API server itself cannot
        self.trouble: ApiError | None = None

    @property
    def objects(self) -> Mapping[Key, P]:
        return MappingProxyType(self._objects)

    @property
    def unreadable(self) -> Mapping[Key, str]:
        """Why each of these objects cannot be read, beginning with its kind and name. The copy has
        them as they last were, or not."""
        return MappingProxyType(self._unreadable)

    @property
    def age_s(self) -> float:
        """Seconds since the server last sent something: the copy may lack what changed since."""
        return asyncio.get_running_loop().time() - self._last_sign

    def all(self) -> list[P]:
        return list(self._objects.values())

    def get(self, key: Key) -> P | None:
        return self._objects.get(key)

    async def run(self) -> None:
        """Runs until it is cancelled. After a failure it waits, and keeps or rebuilds the copy."""
        failures = 0
        # how often in a row the kind did not exist although something showed it
        misled = 0
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            min_delay_s = 0.0
            try:
                if not self._version:
                    await self._list()
                if not self._version:
                    misled = misled + 1 if await self._absence(misled) else 0
                    continue
                misled = 0
                await self._watch()
                if clock() - started >= self._backoff.min_watch_s:
                    failures = 0
                    continue
                reason = "the watch ended at once"
            except ApiError as error:
                reason = str(error)
                min_delay_s = error.retry_after_s
                self._note(error)
            except Exception as error:
                # a fault of ours, which a new list may get past
                log.exception("watch failed", extra={"kind": self.kind.plural})
                reason = repr(error)
                self._version = ""
            if clock() - started >= self._backoff.healthy_s:
                failures = 0
            delay_s = max(min_delay_s, self._backoff.seconds(failures))
            failures += 1
            log.warning(
                "watch failed",
                extra={
                    "kind": self.kind.plural,
                    "reason": reason,
                    "retry_in_s": round(delay_s, 2),
                },
            )
            await asyncio.sleep(delay_s)

    def look_again(self) -> None:
        """Other objects show that the kind exists. If it did not when it was read last, it is read
        again at once, and later each time that it does not exist all the same."""
        if not self._version:
            self._appears.set()

    async def _absence(self, misled: int) -> bool:
        """Waits while nobody has installed the kind, as far as we know. Returns whether something
        shows that the kind exists. The wait is longer after each such sign that was wrong."""
        self._appears.clear()
        if misled:
            await asyncio.sleep(self._backoff.seconds(misled))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._backoff.max_s):
                await self._appears.wait()
        return self._appears.is_set()

    def _note(self, error: ApiError) -> None:
        if isinstance(error, Gone | Unreadable) or self.age_s >= MUTE_S:
            # the same events would fail again, or are lost: list the present objects instead
            self._version = ""
        if isinstance(error, NotFound) and self._is_optional:
            # somebody has removed the kind
            self._version = ""
        if not self.synced.is_set():
            self._note_refusal(error)

    def _note_refusal(self, error: ApiError) -> None:
        """Sets `trouble` if waiting alone does not help."""
        is_busy = isinstance(error, Unreachable | TooManyRequests)
        self._refusals = 0 if is_busy else self._refusals + 1
        is_certain = isinstance(error, NotFound | Forbidden)
        if not is_certain and self._refusals < REFUSALS_UNTIL_TROUBLE:
            return
        if str(error) != str(self.trouble):
            self.trouble = error
            self._observe(WHOLE_KIND, str(error))
            self._changed()

    async def _list(self) -> None:
        """Replaces the copy by all present objects, which also finds deletions during a gap."""
        errors = list[Unreadable]()
        try:
            items, version = await self._client.list(
                self.kind, self._cls, unreadable=errors, **self._selection
            )
        except NotFound:
            if not self._is_optional:
                raise
            items, version = [], ""
        self._last_sign = asyncio.get_running_loop().time()
        listed = {_meta(item).key: item for item in items}
        # an object that did not change stays the same object, so nobody reads it again
        objects = {key: self._present(key, item) for key, item in listed.items()}
        for error in errors:
            if error.key in self._objects:
                objects[error.key] = self._objects[error.key]
        for key in self._unreadable.keys() - {error.key for error in errors}:
            self._set_readable(key)
        for error in errors:
            self._set_unreadable(error.key, error.message)
        differs = objects != self._objects or not self.synced.is_set()
        self._objects = objects
        self._version = version
        self.synced.set()
        self.trouble = None
        if differs:
            self._observe(WHOLE_KIND, version)
            self._changed()

    def _present(self, key: Key, item: P) -> P:
        present = self._objects.get(key)
        return item if present is None or present != item else present

    async def _watch(self) -> None:
        """Applies events until the server ends the watch."""
        events = self._client.watch(
            self.kind, self._cls, version=self._version, initial=False, **self._selection
        )
        async for event in events:
            self._version = event.version or self._version
            self._last_sign = asyncio.get_running_loop().time()
            if self._take(event):
                self._changed()

    def _take(self, event: WatchEvent[P]) -> bool:
        """Whether `changed` must be called for the event."""
        if event.object is None and event.error is None:
            return False
        key = event.error.key if event.error else _meta(event.object).key
        if event.type == "DELETED":
            self._objects.pop(key, None)
            self._set_readable(key)
            if self._expectations:
                self._expectations.observe_deletion(key)
            return True
        if event.error:
            self._set_unreadable(key, event.error.message)
        elif event.object is not None:
            before = None if key in self._unreadable else self._objects.get(key)
            self._objects[key] = event.object
            self._set_readable(key)
            if before is not None and self._is_same(before, event.object):
                return False
        return self._observe(key, event.version)

    def _set_unreadable(self, key: Key, reason: str) -> None:
        """Logs an object once, for as long as it cannot be read."""
        if key not in self._unreadable:
            log.error("object unreadable", extra={"kind": self.kind.plural, "reason": reason})
        self._unreadable[key] = reason
        UNREADABLE.labels(self.kind.plural).set(len(self._unreadable))

    def _set_readable(self, key: Key) -> None:
        if self._unreadable.pop(key, None) is not None:
            UNREADABLE.labels(self.kind.plural).set(len(self._unreadable))

    def _observe(self, key: Key, version: str) -> bool:
        """False for the result of our own write."""
        return self._expectations is None or self._expectations.observe(key, version)


async def all_synced(caches: Iterable[Cache[Any]]) -> None:
    """Returns when each has had its first complete list."""
    for cache in caches:
        await cache.synced.wait()


def _meta(obj: Any) -> Meta:
    """Like `metadata_of`; a P is what the server sends, so it always has metadata."""
    return metadata_of(obj)
