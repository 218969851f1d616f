"""A claim past its team's own quota, its Cession, and its guard."""

from collections.abc import Sequence
from dataclasses import replace

from cede.api.cession import Cession
from cede.api.cession_status import TargetStatus
from cede.api.kueue import FlavorQuotas, ResourceGroup, ResourceQuota
from cede.api.objects import rfc3339
from scheduler.actions import (
    SetQueueingStrategy,
)
from scheduler.cession.reservation import Reservation, prepare
from scheduler.quota.cohort import BEST_EFFORT_FIFO
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.scheduler import (
    FLAVOR,
    GPU,
    KEY,
    NOW,
    admitted,
    cession,
    cohort_quota,
    gpus,
    pending,
    queue,
    snapshot,
)

ADMITTED = Guard("c-1", "9", is_observed=True, is_admitted=True, usage=gpus(4))
KEEPS = replace(ADMITTED, in_cohort=True)
RELAXED = SetQueueingStrategy("vision", BEST_EFFORT_FIFO, "7")


def written(nominal: int, lending_limit: int | None = None) -> tuple[ResourceGroup, ...]:
    quota = ResourceQuota(GPU, str(nominal), None, lending_limit and str(lending_limit))
    return (ResourceGroup((GPU,), (FlavorQuotas(FLAVOR, (quota,)),)),)


def past_own(
    *guards: Guard,
    target: Sequence[AdmittedWorkload] = (),
    records: Sequence[Cession] = (),
    strategy: str = "StrictFIFO",
) -> Snapshot:
    """`claim` of 4 waits in vision, whose job `low` uses all 4 that vision owns; research has 4."""
    used = sum(job.usage[KEY] for job in target)
    vision = replace(queue("vision", 4, used, strategy=strategy), written=written(4))
    current = snapshot(
        cohort_quota(vision, queue("research", 4, 4)),
        pending=[pending()],
        admitted=[*target, admitted(size=4)],
        cessions=records,
    )
    return replace(current, guards=guards)


LOW = (admitted("low", "vision", size=4, allowed_sizes=()),)


def record(released: bool = False, reserved: str = "") -> Cession:
    """A Cession that stops `low` of vision. By the release, the guard has been there for 2 s."""
    stop = cession(
        "Asked",
        to_size=0,
        how="Stop",
        targets=[
            TargetStatus(uid="job-uid-low", stopped=True, releasedTime=rfc3339(NOW) * released)
        ],
        reservedTime=reserved or rfc3339(NOW - 2, micro=True) * released,
    )
    spec = stop.spec
    low = spec.targets[0].model_copy(update={"uid": "job-uid-low", "job": "low", "queue": "vision"})
    return stop.model_copy(update={"spec": spec.model_copy(update={"targets": [low]})})


def step(current: Snapshot, made: Cession, *, all_ready: bool = True) -> Reservation:
    ready = {target.uid: all_ready for target in made.spec.targets}
    return prepare(made, current, NOW, ready)
