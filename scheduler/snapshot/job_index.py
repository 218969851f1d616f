"""PURE. The Jobs by namespace. Only namespaces in which a Job changed are looked at again."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cede.api.cession import Cession
from cede.api.kueue import Job
from cede.api.workload_identity import controller
from scheduler.snapshot.memory import ReadObjects


class NamespaceJobs(NamedTuple):
    """The Jobs of a namespace."""

    by_uid: Mapping[str, Job]
    # by the uid of another object that made them, such as a RayJob: the uids of Jobs
    children: Mapping[str, Sequence[str]]


NO_JOBS = NamespaceJobs({}, {})


class JobIndex:
    """All Jobs."""

    def __init__(self) -> None:
        self._read = ReadObjects(_namespace)
        # by namespace and id()
        self._jobs: dict[str, dict[int, Job]] = defaultdict(dict)
        self._indexed: dict[str, NamespaceJobs] = {}

    def update(self, jobs: Sequence[Job]) -> None:
        removed, added = self._read.update(jobs)
        for job, namespace in removed:
            del self._jobs[namespace][id(job)]
        for job, namespace in added:
            self._jobs[namespace][id(job)] = job
        for namespace in {namespace for _, namespace in (*removed, *added)}:
            self._indexed.pop(namespace, None)
            if not self._jobs[namespace]:
                del self._jobs[namespace]

    def in_namespace(self, namespace: str) -> NamespaceJobs:
        """The same object while none of its Jobs changes."""
        indexed = self._indexed.get(namespace)
        if indexed is None:
            if namespace not in self._jobs:
                return NO_JOBS
            indexed = self._indexed[namespace] = _index(self._jobs[namespace].values())
        return indexed


def read_completed(cessions: Iterable[Cession], jobs: JobIndex) -> Mapping[str, int]:
    """By uid, the Jobs that are Complete among the targets of Cessions that have not ended: their
    parallelism."""
    completed = dict[str, int]()
    for cession in cessions:
        for target in () if cession.ended else cession.spec.targets:
            job = jobs.in_namespace(target.namespace).by_uid.get(target.uid)
            if job and job.is_complete:
                completed[target.uid] = job.spec.parallelism
    return completed


def _namespace(job: Job) -> str:
    return job.metadata.namespace


def _index(jobs: Iterable[Job]) -> NamespaceJobs:
    by_uid = {job.metadata.uid: job for job in jobs}
    children: dict[str, list[str]] = defaultdict(list)
    # the order of the memory depends on what changed last
    for uid in sorted(by_uid):
        if maker := controller(by_uid[uid]):
            children[maker.uid].append(uid)
    return NamespaceJobs(by_uid, children)
