"""PURE. What a job's Workloads show: which one counts, and whether it waits, runs or is stopped."""

from collections.abc import Iterable, Sequence

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import Workload
from cede.api.objects import Condition, condition, is_true
from cede.api.workload_identity import identity


def current(workloads: Sequence[Workload]) -> Workload:
    """The Workload that counts among the slices of one elastic job (KEP-77)."""
    return max(
        workloads,
        key=lambda workload: (
            not is_true(workload.status.conditions, names.FINISHED),
            workload.status.admission is not None,
            workload.metadata.created,
        ),
    )


def state(workload: Workload, cessions: Iterable[Cession]) -> str:
    """Finished, Running, Stopped or Waiting."""
    if is_true(workload.status.conditions, names.FINISHED):
        return "Finished"
    if workload.status.admission and is_true(workload.status.conditions, names.ADMITTED):
        return "Running"
    if workload.spec.active or set_aside_for(workload, cessions):
        return "Waiting"
    return "Stopped"


def set_aside_for(workload: Workload, cessions: Iterable[Cession]) -> Cession | None:
    """The Cession that a Workload without quota was made inactive for. Its targets had quota."""
    cession = stopped_for(workload, cessions)
    if cession is None or identity(workload) in {target.uid for target in cession.spec.targets}:
        return None
    return cession


def stopped_for(workload: Workload, cessions: Iterable[Cession]) -> Cession | None:
    """The Cession for which the Workload is inactive; None when nobody stopped it for one."""
    name = workload.metadata.labels.get(names.STOPPED_FOR)
    return next((cession for cession in cessions if cession.metadata.name == name), None)


def true_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    entry = condition(conditions, type_)
    return entry if entry and entry.status == "True" else None
