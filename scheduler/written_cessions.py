"""PURE. The Cessions as the scheduler last wrote them, and what the API server does not keep of
them."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import Json

RETRY_S = 600.0
"""How long what the server drops is not sent again. Its CRD may be replaced at any time."""


class WrittenCessions:
    """Each is known until the cache has it."""

    def __init__(self) -> None:
        self._written: dict[str, Cession] = {}
        # fields of the status that the server drops, because its CRD is older than the scheduler
        self._dropped = frozenset[str]()
        # when one of them was last sent (Unix seconds)
        self._sent = 0.0

    def note(self, cession: Cession) -> None:
        """The server returned this for a write."""
        self._written[cession.metadata.name] = cession

    def forget(self, name: str) -> None:
        """It is deleted, or will be."""
        self._written.pop(name, None)

    def latest(self, cached: Iterable[Cession]) -> list[Cession]:
        """The cached Cessions, replaced by our own write where that is newer: otherwise the next
        status would lose what the last one recorded."""
        cessions = {cession.metadata.name: cession for cession in cached}
        for name, written in list(self._written.items()):
            if name in cessions and _version(cessions[name]) >= _version(written):
                del self._written[name]
            else:
                cessions[name] = written
        return list(cessions.values())

    def compare(self, sent: CessionStatus, kept: CessionStatus, now: float) -> list[str]:
        """The fields that are dropped and were not before, by what the server `kept` of a status.

        A field is kept again once the server returns it: its CRD was replaced.
        """
        before = self._dropped
        sent_fields = {*_fields(sent.model_dump())}
        self._dropped = (before | sent_fields) - {*_fields(kept.model_dump())}
        if self._dropped & sent_fields:
            self._sent = now
        # of a field that is dropped, the fields inside are too
        return sorted(
            name for name in self._dropped - before if name.rpartition(".")[0] not in self._dropped
        )

    def would_change(self, status: CessionStatus, cession: Cession | None, now: float) -> bool:
        """Whether the server would keep anything of this status that the Cession does not have, or
        may keep what it has dropped for a while."""
        if not self._dropped or cession is None or abs(now - self._sent) > RETRY_S:
            return True
        planned: Json = _without(self._dropped, status.model_dump())
        present: Json = _without(self._dropped, cession.status.model_dump())
        return planned != present


def _fields(body: Json, prefix: str = "") -> Iterator[str]:
    """Those that have a value, also in objects and lists of them: `targets.unsaved.seconds`."""
    for name, value in body.items():
        if value:
            yield prefix + name
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from _fields(part, f"{prefix}{name}.")


def _without(dropped: Collection[str], value: Any, prefix: str = "") -> Any:
    if isinstance(value, list):
        return [_without(dropped, part, prefix) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without(dropped, part, f"{prefix}{name}.")
        for name, part in value.items()
        if prefix + name not in dropped
    }


def _version(cession: Cession) -> int:
    """Comparable as a number since Kubernetes 1.35."""
    return int(cession.metadata.resourceVersion)
