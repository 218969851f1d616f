"""PURE. The Cessions as the scheduler last wrote them, and what the API server does not keep of
them."""

from collections.abc import Iterable

from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import Json

OF_TARGETS = "targets."
"""Before the name of a field of targets."""


class WrittenCessions:
    """Each is known until the cache has it."""

    def __init__(self) -> None:
        self._written: dict[str, Cession] = {}
        # fields of the status that the server drops, because its CRD is older than the scheduler
        self._dropped = frozenset[str]()

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

    def compare(self, sent: CessionStatus, kept: CessionStatus) -> list[str]:
        """The fields that are dropped and were not before, by what the server `kept` of a status.

        A field is kept again once the server returns it: its CRD was replaced.
        """
        before = self._dropped
        kept_fields = _fields(kept)
        self._dropped = (before | _fields(sent)) - kept_fields
        return sorted(self._dropped - before)

    def would_change(self, status: CessionStatus, cession: Cession | None) -> bool:
        """Whether the server would keep anything of this status that the Cession does not have."""
        if not self._dropped or cession is None:
            return True
        return self._without_dropped(status) != self._without_dropped(cession.status)

    def _without_dropped(self, status: CessionStatus) -> Json:
        body = self._kept(status.model_dump(), "")
        body["targets"] = [self._kept(target, OF_TARGETS) for target in body["targets"]]
        return body

    def _kept(self, body: Json, prefix: str) -> Json:
        return {name: value for name, value in body.items() if prefix + name not in self._dropped}


def _fields(status: CessionStatus) -> frozenset[str]:
    """Those that have a value: of the status, and of its targets."""
    body = status.model_dump()
    of_status = {name for name, value in body.items() if value}
    of_targets = {OF_TARGETS + name for target in body["targets"] for name in target}
    return frozenset(of_status | of_targets)


def _version(cession: Cession) -> int:
    """Comparable as a number since Kubernetes 1.35."""
    return int(cession.metadata.resourceVersion)
