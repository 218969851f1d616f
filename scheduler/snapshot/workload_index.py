"""PURE. The Workloads by what they are: with quota, waiting in a LocalQueue, finished. Only those
that changed are read again."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import Key, is_true
from cede.api.workload_identity import identity
from scheduler.snapshot.memory import ReadObjects
from scheduler.snapshot.pod_index import Owner
from scheduler.snapshot.read_workloads import has_quota, replaced_slice


class Facts(NamedTuple):
    """What decides how a Workload is read."""

    key: Key
    # of its job
    identity: str
    has_quota: bool
    is_finished: bool
    # the Workload that it replaces
    replaces: Key | None
    # of its pods
    owner: Owner
    local_queue: Key


WaitingIndex = Mapping[Key, Mapping[Key, tuple[Workload, Facts]]]
"""By LocalQueue, by the key of the Workload."""


class WorkloadIndex:
    """In each dict by the Workload's key."""

    def __init__(self) -> None:
        self._read = ReadObjects(_read_facts)
        self.with_quota: dict[Key, tuple[Workload, Facts]] = {}
        # by LocalQueue
        self.waiting: dict[Key, dict[Key, tuple[Workload, Facts]]] = defaultdict(dict)
        self.finished: dict[Key, str] = {}

    def update(self, workloads: Sequence[Workload]) -> None:
        removed, added = self._read.update(workloads)
        for _, facts in removed:
            self.with_quota.pop(facts.key, None)
            self.finished.pop(facts.key, None)
            self.waiting[facts.local_queue].pop(facts.key, None)
        for workload, facts in added:
            if facts.has_quota:
                self.with_quota[facts.key] = workload, facts
            elif facts.is_finished:
                self.finished[facts.key] = workload.metadata.uid
            else:
                self.waiting[facts.local_queue][facts.key] = workload, facts
        for queue in {facts.local_queue for _, facts in removed}:
            if not self.waiting[queue]:
                del self.waiting[queue]


def _read_facts(workload: Workload) -> Facts:
    namespace, name = workload.metadata.key
    uid = identity(workload)
    # the Workload of a group of pods has the group's name, and nothing controls it
    is_group = uid == workload.metadata.uid
    return Facts(
        key=workload.metadata.key,
        identity=uid,
        has_quota=has_quota(workload),
        is_finished=is_true(workload.status.conditions, names.FINISHED),
        replaces=replaced_slice(workload),
        owner=Owner(namespace, group=name) if is_group else Owner(namespace, uid),
        local_queue=(namespace, workload.spec.queueName),
    )
