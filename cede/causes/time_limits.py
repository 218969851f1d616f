"""PURE. By when jobs that run have freed quota at the latest, because their time is limited."""

from collections.abc import Sequence

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import unix
from cede.causes.index import Index
from cede.causes.queue_quota import used_by
from cede.causes.workload_state import true_condition


def freed_by(team: str, flavor: str, resource: str, needed: int, index: Index) -> float:
    """When jobs of the team have freed so much (Unix seconds); 0.0 if those whose time is limited
    do not use so much, or should have ended by now."""

    def compute() -> Sequence[tuple[float, int]]:
        workloads = index.admitted.get(team, ())
        ends = ((_end(item), used_by(item, flavor, resource)) for item in workloads)
        return sorted((end, used) for end, used in ends if end > index.now)

    freed = 0
    for end, used in index.once(("ends", team, flavor, resource), compute):
        freed += used
        if freed >= needed:
            return end
    return 0.0


def _end(workload: Workload) -> float:
    """When Kueue ends it (workload_controller.go, reconcileMaxExecutionTime); 0.0: never."""
    limit_s = workload.spec.maximumExecutionTimeSeconds
    admitted = true_condition(workload.status.conditions, names.ADMITTED)
    if not limit_s or not admitted:
        return 0.0
    left_s = limit_s - workload.status.accumulatedPastExecutionTimeSeconds
    return unix(admitted.lastTransitionTime) + left_s
