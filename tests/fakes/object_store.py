"""The objects of an API server in memory, with their versions and the history that watches read."""

import asyncio
import copy
import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from cede.api.objects import Json, Key
from tests.fakes.patches import merge

SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp")
FIRST_VERSION = 100


@dataclass(frozen=True)
class Event:
    version: int
    # ADDED, MODIFIED, DELETED or BOOKMARK
    type: str
    body: Json


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ObjectStore:
    """Every change has a version of its own; a collection is named as in URLs."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self.objects: dict[str, dict[Key, Json]] = defaultdict(dict)
        self.history: dict[str, list[Event]] = defaultdict(list)
        # a watch from an older version is Gone
        self.oldest_version = 0
        # notified after every change
        self.changed = asyncio.Condition()

    def write(self, collection: str, key: Key, body: Json, old: Json | None) -> Json:
        """Creates or replaces an object as a server does: an equal one gets no new version, and one
        that is being deleted goes with its last finalizer."""
        metadata = body["metadata"]
        old_metadata = old["metadata"] if old else {}
        for field in SERVER_FIELDS:
            if field in old_metadata:
                metadata[field] = old_metadata[field]
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", timestamp())
        metadata.setdefault("generation", 1)
        if old is not None and body == old:
            return copy.deepcopy(old)
        if old is not None and body.get("spec") != old.get("spec"):
            metadata["generation"] = old_metadata.get("generation", 1) + 1
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        self.objects[collection][key] = body
        if old is not None and metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.remove(collection, key)
            return body
        self.record(collection, "MODIFIED" if old else "ADDED", body)
        return copy.deepcopy(body)

    def mark_deleted(self, collection: str, key: Key, old: Json) -> Json:
        """The object stays until its finalizers are removed."""
        body = copy.deepcopy(old)
        body["metadata"].setdefault("deletionTimestamp", timestamp())
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[collection][key] = body
        self.record(collection, "MODIFIED", body)
        return body

    def remove(self, collection: str, key: Key) -> None:
        body = self.objects[collection].pop(key)
        self.version += 1
        last = merge(body, {"metadata": {"resourceVersion": str(self.version)}})
        self.record(collection, "DELETED", last)

    def record(self, collection: str, type_: str, body: Json) -> None:
        """Adds an event at the present version, and wakes the watches."""
        self.history[collection].append(Event(self.version, type_, copy.deepcopy(body)))
        self._notification = asyncio.get_running_loop().create_task(self.notify())

    async def notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def compact(self) -> None:
        """Forgets the history: a watch from an earlier version is Gone."""
        self.oldest_version = self.version
        self.history.clear()
