"""PURE. By when jobs that run have ended, because their time is limited."""

from collections.abc import Sequence

from cede.api import names
from cede.api.kueue import Workload
from cede.api.objects import unix
from cede.causes.index import Index
from cede.causes.queue_quota import used_by
from cede.causes.workload_state import true_condition


def ends_of(team: str, flavor: str, resource: str, index: Index) -> Sequence[tuple[float, int]]:
    """When each job of the team ends at the latest (Unix seconds), and what it uses of this, the
    first first. Without those whose time is not limited, or that should have ended by now."""
    ends = ((_end(item), used_by(item, flavor, resource)) for item in index.admitted.get(team, ()))
    return sorted((end, used) for end, used in ends if end > index.now)


def _end(workload: Workload) -> float:
    """When Kueue ends it (workload_controller.go, reconcileMaxExecutionTime); 0.0: never."""
    limit_s = workload.spec.maximumExecutionTimeSeconds
    admitted = true_condition(workload.status.conditions, names.ADMITTED)
    if not limit_s or not admitted:
        return 0.0
    left_s = limit_s - workload.status.accumulatedPastExecutionTimeSeconds
    return unix(admitted.lastTransitionTime) + left_s
