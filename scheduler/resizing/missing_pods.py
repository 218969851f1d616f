"""PURE. Which elastic jobs shrink because some of their pods cannot be made again.

An elastic job trains on without the pods that it misses. Kueue does not know that: past its
waitForPodsReady it evicts the job whole (pkg/controller/core/workload_controller.go,
admittedNotReadyWorkload). A job that is smaller by then misses nothing.
"""

from collections.abc import Collection, Iterator

from cede.api import sizes
from elastic_runtime.contract import State
from scheduler.actions import RequestSize, ResizeJob, request_size, resize
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

REQUEST_NAME = "missing-pods"
"""What such a request to a runtime carries in place of a Cession's name."""
PLACEMENT_WAIT_S = 30.0
"""Pods for which no node has room are waited for so long, or for half of Kueue's timeout if that is
shorter: most nodes that restart are back by then."""
SHRINK_AT = 0.5
"""The part of Kueue's timeout after which a job shrinks to its lowest missing pod."""
FORCE_AT = 0.8
"""The part of Kueue's timeout after which it is resized, even if its runtime has not ceded."""


def shrink_missing(
    snapshot: Snapshot, targets: Collection[str], now: float
) -> Iterator[RequestSize | ResizeJob]:
    """Jobs that miss pods are asked to shrink, and resized once they have ceded.

    Jobs that are targets of an open Cession, by uid, are left to it. A job grows back like any
    other, after the cooldown.
    """
    for job in snapshot.elastic:
        if job.identity in targets or not _misses_pods(job):
            continue
        timeout_s = snapshot.timeouts.timeout_s(job)
        size, why = _new_size(snapshot, job, now - job.unready_since, timeout_s)
        if size < job.size:
            is_late = 0 < FORCE_AT * timeout_s <= now - job.unready_since
            yield _shrink(job, size, why, is_late=is_late)


def _misses_pods(job: AdmittedWorkload) -> bool:
    """Whether the job is to stay at its size, and Kueue counts too few ready pods."""
    is_staying = job.active and not job.is_evicting and job.parallelism == job.size
    return bool(job.allowed_sizes and job.unready_since and job.missing_pods) and is_staying


def _new_size(
    snapshot: Snapshot, job: AdmittedWorkload, missing_s: float, timeout_s: float
) -> tuple[int, str]:
    """The size at which all pods of the job can be ready, and why; the present size if there is
    none, or if it is too soon.

    If nodes have no room for some pods, the job needs as many pods less: Kubernetes removes those
    of the highest index, and makes the missing ones in the freed room. Pods that are missing for
    another reason, on a lost node or without their image, find no other place. Then only the pods
    below the lowest missing index are kept.
    """
    wait_s = min(PLACEMENT_WAIT_S, SHRINK_AT * timeout_s or PLACEMENT_WAIT_S)
    if job.unplaced_pods and missing_s >= wait_s and (_trains_on(job) or 0 in job.missing_pods):
        size = _allowed(job, job.size - job.unplaced_pods)
        if _makes_room(snapshot, job, size):
            return size, f"no node has room for {job.unplaced_pods} of its pods"
    if timeout_s and missing_s >= SHRINK_AT * timeout_s and _trains_on(job):
        indexes = ", ".join(map(str, job.missing_pods[:8]))
        why = f"pods {indexes} are missing for {missing_s:.0f} s, and Kueue evicts it whole at"
        return _allowed(job, job.missing_pods[0]), f"{why} {timeout_s:.0f} s"
    return job.size, ""


def _makes_room(snapshot: Snapshot, job: AdmittedWorkload, size: int) -> bool:
    """Whether the missing pods that the smaller job still needs find room where others leave. A
    node that is cordoned or not Ready takes no new pod."""
    needed = sum(1 for index in job.missing_pods if index < size)
    usable = {node.name for node in snapshot.nodes}
    freed = sum(1 for index, node in job.node_of_index.items() if index >= size and node in usable)
    return needed <= freed


def _allowed(job: AdmittedWorkload, limit: int) -> int:
    return sizes.largest_within(job.allowed_sizes, limit) or job.size


def _trains_on(job: AdmittedWorkload) -> bool:
    """Whether the runtime trains without the missing pods."""
    runtime = job.runtime
    return runtime is not None and runtime.state != State.STARTING and runtime.size < job.size


def _shrink(
    job: AdmittedWorkload, size: int, why: str, *, is_late: bool
) -> RequestSize | ResizeJob:
    """Without an answer lately nobody can be asked: the pods that are lost have lost their state
    anyway, and the others keep theirs."""
    if job.runtime and job.addresses and not job.has_ceded(size) and not is_late:
        return request_size(job, size, REQUEST_NAME)
    return resize(job, size, why, shrinks=True)
