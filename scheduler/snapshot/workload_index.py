"""PURE. The Workloads by what they are: with quota, waiting in a LocalQueue, finished. Only those
that changed are read again."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import Key, is_true
from cede.api.pod_owner import Owner, job_owners
from cede.api.workload_identity import controller, identity
from cede.api.workload_quota import has_quota, replaced_slice
from scheduler.snapshot.memory import ReadObjects


class Facts(NamedTuple):
    """What decides how a Workload is read."""

    key: Key
    # of its job
    identity: str
    has_quota: bool
    is_finished: bool
    # the Workload that it replaces
    replaces: Key | None
    # as whose its pods are found
    owners: tuple[Owner, ...]
    local_queue: Key

    @property
    def namespace(self) -> str:
        return self.key[0]


Entry = tuple[Workload, Facts]
Waiting = tuple[Workload, Workload | None]
"""A pending Workload, and the admitted one that it replaces."""
WaitingIndex = Mapping[Key, Mapping[Key, Entry]]
"""By LocalQueue, by the key of the Workload."""


class WorkloadIndex:
    """In each inner dict by the Workload's key."""

    def __init__(self) -> None:
        self._read = ReadObjects(_read_facts)
        # by namespace
        self._with_quota: dict[str, dict[Key, Entry]] = defaultdict(dict)
        # by LocalQueue
        self.waiting: dict[Key, dict[Key, Entry]] = defaultdict(dict)
        self.finished: dict[Key, str] = {}
        # what was asked for since a Workload of the namespace changed
        self._admitted: dict[str, tuple[Entry, ...]] = {}
        self._lines: dict[Key, tuple[Waiting, ...]] = {}

    def update(self, workloads: Sequence[Workload]) -> None:
        removed, added = self._read.update(workloads)
        for _, facts in removed:
            self._with_quota[facts.namespace].pop(facts.key, None)
            self.waiting[facts.local_queue].pop(facts.key, None)
            self.finished.pop(facts.key, None)
        for workload, facts in added:
            if facts.has_quota:
                self._with_quota[facts.namespace][facts.key] = workload, facts
            elif facts.is_finished:
                self.finished[facts.key] = workload.metadata.uid
            else:
                self.waiting[facts.local_queue][facts.key] = workload, facts
        for _, facts in removed:
            if not self._with_quota[facts.namespace]:
                del self._with_quota[facts.namespace]
            if not self.waiting[facts.local_queue]:
                del self.waiting[facts.local_queue]
        self._forget({facts.namespace for _, facts in (*removed, *added)})

    def _forget(self, namespaces: Collection[str]) -> None:
        for namespace in namespaces:
            self._admitted.pop(namespace, None)
        for local_queue in list(self._lines):
            if local_queue[0] in namespaces:
                del self._lines[local_queue]

    @property
    def namespaces(self) -> Collection[str]:
        """Those in which a Workload has quota."""
        return self._with_quota.keys()

    def admitted(self, namespace: str) -> tuple[Entry, ...]:
        """The Workloads with quota, without slices whose replacement has quota: Kueue finishes them
        a moment later. The same object while no Workload of the namespace changes."""
        if namespace not in self._admitted:
            replaced = self._replaced(namespace)
            entries = self._with_quota.get(namespace, {}).values()
            self._admitted[namespace] = tuple(
                entry for entry in entries if entry[1].key not in replaced
            )
        return self._admitted[namespace]

    def line(self, local_queue: Key) -> tuple[Waiting, ...]:
        """What waits there, without slices whose replacement has quota. The same object while no
        Workload of the namespace changes."""
        if local_queue not in self._lines:
            namespace = local_queue[0]
            with_quota = self._with_quota.get(namespace, {})
            replaced = self._replaced(namespace)
            self._lines[local_queue] = tuple(
                (workload, with_quota[facts.replaces][0] if facts.replaces in with_quota else None)
                for workload, facts in self.waiting.get(local_queue, {}).values()
                if facts.key not in replaced
            )
        return self._lines[local_queue]

    def _replaced(self, namespace: str) -> Collection[Key | None]:
        """The keys of the Workloads that one with quota replaces."""
        return {facts.replaces for _, facts in self._with_quota.get(namespace, {}).values()}


def _read_facts(workload: Workload) -> Facts:
    key = workload.metadata.key
    uid = identity(workload)
    maker = controller(workload)
    owners = job_owners(key, uid)
    return Facts(
        key=key,
        identity=uid,
        has_quota=has_quota(workload),
        is_finished=is_true(workload.status.conditions, names.FINISHED),
        replaces=replaced_slice(workload),
        # the runtime of a Job is asked at its pods: what another pod says makes it none of them
        owners=owners[:1] if maker and maker.kind == "Job" else owners,
        local_queue=(key[0], workload.spec.queueName),
    )
