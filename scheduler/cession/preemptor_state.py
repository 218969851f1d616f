"""PURE. Where the preemptor of a Cession is now, and why it waits or its pods are not ready."""

from dataclasses import dataclass

from cede.api.cession import Cession, Preemptor
from scheduler.cession.cession_lifecycle import Occurrence
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload

START_S = 10.0
"""A Cession says which pods are not ready when its preemptor was admitted so long ago."""


@dataclass(frozen=True, slots=True)
class PreemptorState:
    """The preemptor's Workload as it is now: at most one of the three; none if it was deleted."""

    pending: PendingWorkload | None
    admitted: AdmittedWorkload | None
    finished: bool


def find_preemptor(cession: Cession, snapshot: Snapshot) -> PreemptorState:
    uid = cession.spec.preemptor.uid
    return PreemptorState(
        pending=snapshot.find_pending(uid),
        admitted=snapshot.find_admitted(uid),
        finished=uid in snapshot.finished,
    )


def pods_are_ready(workload: AdmittedWorkload) -> bool:
    """The pods of a Workload without a Job are not counted."""
    return workload.ready_pods >= workload.size > 0 or not workload.job_version


def waiting_reason(occurrence: Occurrence | None, workload: PendingWorkload) -> str:
    """Why Kueue would not try the preemptor, or who took back what it had been given; empty if
    something else happened, or nobody knows."""
    why = ""
    if occurrence is Occurrence.PREEMPTOR_INELIGIBLE:
        why = workload.ineligible
    elif occurrence is Occurrence.ADMISSION_LOST:
        why = workload.evicted
        if workload.stopped_for:
            why = f"it was stopped for Cession {workload.stopped_for}"
    return f"Why: {why}." if why else ""


def starting_reason(preemptor: Preemptor, workload: AdmittedWorkload, waited_s: float) -> str:
    """Which pods of an admitted preemptor are not ready, and why; empty while they may just be
    starting. It is the same text while nothing changes, as every change is written."""
    if waited_s < START_S or pods_are_ready(workload):
        return ""
    verb = "is" if workload.ready_pods == 1 else "are"
    count = f"{workload.ready_pods} of its {workload.size} pods {verb} ready."
    counts = [
        (workload.absent_pods, "not created"),
        (workload.unplaced_pods, "without room on any node"),
        *((pods, f"in {reason}") for reason, pods in sorted(workload.failing_pods.items())),
    ]
    reasons = ", ".join(f"{pods} {state}" for pods, state in counts if pods)
    more = f" Of the others: {reasons}." if reasons else ""
    return f"{count}{more} `cede explain -n {preemptor.namespace} {preemptor.name}` says more."
