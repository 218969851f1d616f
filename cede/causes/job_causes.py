"""PURE. All causes of a job's state, whatever it is: the same in every command."""

from collections.abc import Iterator, Sequence

from cede.api import durations, names
from cede.api.kueue import Job, Workload
from cede.api.objects import condition, unix
from cede.api.wait_reasons import WaitReason
from cede.api.workload_identity import identity
from cede.causes.cession import taken_from
from cede.causes.facts import Cause
from cede.causes.inactive import why_inactive
from cede.causes.index import Index
from cede.causes.no_workload import without_class
from cede.causes.pods import why_pods_do_not_run
from cede.causes.size import why_it_is_small
from cede.causes.waiting import why_it_waits
from cede.causes.workload_state import state, true_condition


def job_causes(workload: Workload, job: Job | None, index: Index) -> Sequence[Cause]:
    """The first has to pass first. None for a job that runs as its user wants, or has finished."""
    match state(workload, index.snapshot.cessions):
        case "Finished":
            return ()
        case "Running":
            return list(_running(workload, job, index))
        case _ if not workload.spec.active:
            return [why_inactive(workload, index)]
        case _:
            return [*why_it_waits(workload, index), *without_class(workload, job, index)]


def _running(workload: Workload, job: Job | None, index: Index) -> Iterator[Cause]:
    evicted = true_condition(workload.status.conditions, names.EVICTED)
    if not workload.spec.active:
        yield why_inactive(workload, index)
        return
    if evicted:
        yield Cause(
            WaitReason.BEING_EVICTED,
            f"Kueue stops it ({evicted.reason}): {evicted.message.rstrip('.')}.",
        )
        return
    ready = condition(workload.status.conditions, names.PODS_READY)
    if ready is None or ready.status != "True":
        causes = list(why_pods_do_not_run(workload, job, index))
        if not causes and ready is not None:
            message = ready.message.rstrip(".")
            age = durations.describe(index.now - unix(ready.lastTransitionTime))
            causes = [
                Cause(
                    WaitReason.PODS_NOT_READY,
                    f"Its pods are not all ready for {age}: {message}.",
                    f"`kubectl get pods -n {workload.metadata.namespace}` shows their states",
                )
            ]
        yield from causes
    if job is not None:
        uid = identity(workload)
        taken = taken_from(uid, index.cessions_by_target.get(uid, ()))
        yield from why_it_is_small(workload, job, taken, index)
