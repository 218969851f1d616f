"""PURE. The versions that objects must still have when a plan is performed."""

from cede.api.cession import Cession
from cede.api.objects import Json, Key
from scheduler.snapshot.snapshot import RawObjects


class Versions:
    """The resourceVersions that a plan was made on, as preconditions of its writes."""

    def __init__(self, planned_on: RawObjects) -> None:
        self._workloads = planned_on.workloads
        self._by_key: dict[Key, str] | None = None
        self._cessions = {cession.metadata.name: cession for cession in planned_on.cessions}

    def note(self, cession: Cession) -> None:
        self._cessions[cession.metadata.name] = cession

    def cession(self, name: str) -> Cession | None:
        """As the plan or the last write has it."""
        return self._cessions.get(name)

    def of_cession(self, name: str) -> Json:
        cession = self._cessions.get(name)
        return _precondition(cession.metadata.resourceVersion) if cession else {}

    def of_workload(self, key: Key, uid: str) -> Json:
        if self._by_key is None:
            self._by_key = {w.metadata.key: w.metadata.resourceVersion for w in self._workloads}
        return {"uid": uid} | _precondition(self._by_key.get(key, ""))


def _precondition(version: str) -> Json:
    return {"resourceVersion": version} if version else {}
