"""PURE. Where the preemptor of a Cession is now."""

from dataclasses import dataclass

from cede.api.cession import Cession
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload


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
