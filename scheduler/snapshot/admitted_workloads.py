"""PURE. Reads the Workloads with quota, their jobs, pods and runtimes, namespace by namespace."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from operator import attrgetter

from cede.api.kueue import Job, Workload
from cede.api.pod_owner import Owner
from elastic_runtime.contract import Status
from scheduler.snapshot.job_index import JobIndex, NamespaceJobs
from scheduler.snapshot.job_pods import JobPods, combined
from scheduler.snapshot.memory import Kept
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.read_workloads import read_admitted
from scheduler.snapshot.workload_index import Entry, WorkloadIndex
from scheduler.snapshot.workloads import AdmittedWorkload


class AdmittedWorkloads:
    """The Workloads with quota. Only those of a namespace in which something changed are looked
    at."""

    def __init__(self) -> None:
        self._of_namespace = Kept[str, tuple[AdmittedWorkload, ...]]()
        # of a namespace, each Workload alone
        self._single = Kept[str, Kept[str, AdmittedWorkload]]()
        self._all = Kept[str, tuple[AdmittedWorkload, ...]]()
        # with what their runtimes show
        self._running = Kept[str, AdmittedWorkload]()

    def read(
        self,
        workloads: WorkloadIndex,
        jobs: JobIndex,
        pods: PodIndex,
        statuses: Mapping[str, Status],
        observations: Mapping[str, Observed],
    ) -> list[AdmittedWorkload]:
        """All of them, by uid. `statuses` and `observations` are those of runtimes, by the Job's
        uid."""
        namespaces = workloads.namespaces
        parts = [self._read_namespace(name, workloads, jobs, pods) for name in namespaces]
        admitted = self._all.get("", _by_uid, *parts)
        shown = statuses.keys() | observations.keys()
        return [
            self._with_runtime(workload, jobs, statuses, observations)
            if workload.job_uid in shown
            else workload
            for workload in admitted
        ]

    def _read_namespace(
        self, namespace: str, workloads: WorkloadIndex, jobs: JobIndex, pods: PodIndex
    ) -> tuple[AdmittedWorkload, ...]:
        entries = workloads.admitted(namespace)
        jobs_there = jobs.in_namespace(namespace)
        single = self._single.get(namespace, Kept[str, AdmittedWorkload])

        def read(*_: object) -> tuple[AdmittedWorkload, ...]:
            return tuple(_read_all(entries, jobs_there, pods, single))

        sources = (entries, jobs_there, pods.version(namespace))
        return self._of_namespace.get(namespace, read, *sources)

    def _with_runtime(
        self,
        workload: AdmittedWorkload,
        jobs: JobIndex,
        statuses: Mapping[str, Status],
        observations: Mapping[str, Observed],
    ) -> AdmittedWorkload:
        job = workload.job_uid
        has_job = job in jobs.in_namespace(workload.key[0]).by_uid
        status = statuses.get(job) if has_job else None
        return self._running.get(workload.uid, _running, workload, status, observations.get(job))

    def end_pass(self) -> None:
        for kept in (self._of_namespace, self._single, self._all, self._running):
            kept.end_pass()


def _read_all(
    entries: Iterable[Entry],
    jobs: NamespaceJobs,
    pods: PodIndex,
    single: Kept[str, AdmittedWorkload],
) -> Iterator[AdmittedWorkload]:
    for workload, facts in entries:
        children = jobs.children.get(facts.identity, ())
        owners = [*facts.owners, *(Owner(facts.namespace, child) for child in children)]
        parts = [pods.shown(owner) for owner in owners]
        job = jobs.by_uid.get(facts.identity)
        yield single.get(workload.metadata.uid, _read, workload, job, *parts)
    single.end_pass()


def _read(workload: Workload, job: Job | None, *parts: JobPods) -> AdmittedWorkload:
    return read_admitted(workload, job, combined(parts))


def _running(
    workload: AdmittedWorkload, status: Status | None, observed: Observed | None
) -> AdmittedWorkload:
    return replace(workload, runtime=status, observed=observed or workload.observed)


def _by_uid(*parts: Iterable[AdmittedWorkload]) -> tuple[AdmittedWorkload, ...]:
    # the order of the memory depends on what changed last
    return tuple(sorted(chain.from_iterable(parts), key=attrgetter("uid")))
