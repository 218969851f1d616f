"""PURE. Pods of stopped jobs that have not ended: they may still save."""

from collections.abc import Iterable, Iterator, Mapping

from cede.api.cession import Cession
from cede.api.objects import Key
from cede.api.pod_owner import END_TIMEOUT_S, Owner, job_owners
from scheduler.snapshot.job_index import JobIndex
from scheduler.snapshot.job_pods import JobPods, combined
from scheduler.snapshot.pod_index import PodIndex
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


def read_ending(
    cessions: Iterable[Cession],
    workloads: Iterable[PendingWorkload | AdmittedWorkload],
    jobs: JobIndex,
    pods: PodIndex,
) -> Mapping[str, JobPods]:
    """By the identity of each job that was stopped and lost its quota: what its pods show, as far
    as they are on a node."""
    ending = dict[str, JobPods]()
    for identity, workload in _stopped(cessions, workloads):
        if identity in ending:
            continue
        shown = combined([pods.shown(owner) for owner in _owners(identity, workload, jobs)])
        if shown.on_nodes:
            ending[identity] = shown
    return ending


def is_ending(shown: JobPods | None, now: float) -> bool:
    """Whether pods of the job may still save, and are waited for."""
    return shown is not None and now < shown.ends_by + END_TIMEOUT_S


def _stopped(
    cessions: Iterable[Cession], workloads: Iterable[PendingWorkload | AdmittedWorkload]
) -> Iterator[tuple[str, Key]]:
    """The identity of each stopped job and each pod that drains, and the key of its Workload."""
    for cession in cessions:
        if cession.ended:
            continue
        stopped = {status.uid for status in cession.status.targets if status.stopped}
        for target in cession.spec.targets:
            if target.uid in stopped or target.how == "Drain":
                yield target.uid, (target.namespace, target.workload)
    for workload in workloads:
        if workload.stopped_for:
            yield workload.identity, workload.key


def _owners(identity: str, workload: Key, jobs: JobIndex) -> Iterator[Owner]:
    namespace, _ = workload
    yield from job_owners(workload, identity)
    for child in jobs.in_namespace(namespace).children.get(identity, ()):
        yield Owner(namespace, child)
