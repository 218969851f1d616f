"""PURE. The figures of a replay."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scheduler.simulate.objects import Job
from scheduler.simulate.replay import Run, Sample

TWICE_WITHIN_S = 600.0
"""Two stops of one job within this time count as one job stopped twice."""


@dataclass(frozen=True, slots=True)
class TeamFigures:
    """One team; seconds. A job that still waits at the end waited until then."""

    team: str
    jobs: int
    median_wait_s: float
    p95_wait_s: float
    # accelerator-hours of training that counted
    work_h: float


@dataclass(frozen=True, slots=True)
class Figures:
    """One way of sharing."""

    way: str
    # parts of all accelerators: with quota, and training what was not lost later
    in_use: float
    useful: float
    median_wait_s: float
    p95_wait_s: float
    # jobs that their team's own quota covered and that had to wait for it
    owners: int
    median_to_owner_s: float
    p95_to_owner_s: float
    # accelerator-hours of work done again, and of starting again, after stops
    lost_h: float
    stops: int
    stopped_twice: int
    shrinks: int
    # of the accelerators that elastic jobs could grow by, the part that they grew by; None: there
    # were none
    grown: float | None
    finished: int
    teams: tuple[TeamFigures, ...]


def figures(run: Run) -> Figures:
    """Of jobs that were submitted in the window, and of stops of all jobs in it."""
    jobs = run.all_jobs
    capacity = sum(queue.quota.nominal for queue in run.cluster.kueue.queues.values())
    seconds = run.cluster.now - run.begin
    lost = sum(job.lost for job in jobs)
    waits = [wait(job, run.cluster.now) for job in run.jobs]
    to_owner = [*run.cluster.owed, *_still_owed(jobs, run.cluster.now)]
    return Figures(
        way=run.way.value,
        in_use=run.cluster.used / capacity / seconds,
        useful=(run.cluster.trained - sum(job.discarded for job in jobs)) / capacity / seconds,
        median_wait_s=quantile(waits, 0.5),
        p95_wait_s=quantile(waits, 0.95),
        owners=len(to_owner),
        median_to_owner_s=quantile(to_owner, 0.5),
        p95_to_owner_s=quantile(to_owner, 0.95),
        lost_h=lost / 3600,
        stops=sum(len(job.stops) for job in jobs),
        stopped_twice=sum(_is_stopped_twice(job.stops) for job in jobs),
        shrinks=sum(job.shrinks for job in jobs),
        grown=_grown(run.samples),
        finished=sum(job.ended is not None for job in jobs),
        teams=tuple(_by_team(run)),
    )


def _grown(samples: Sequence[Sample]) -> float | None:
    grown = sum(sample.grown for sample in samples)
    wanted = sum(sample.wanted for sample in samples)
    return grown / (grown + wanted) if grown + wanted else None


def _by_team(run: Run) -> Iterable[TeamFigures]:
    jobs: dict[str, list[Job]] = defaultdict(list)
    for job in run.jobs:
        jobs[job.spec.team].append(job)
    work = dict.fromkeys(run.cluster.kueue.queues, 0.0)
    for job in run.all_jobs:
        work[job.spec.team] += job.done / 3600
    for name in run.cluster.kueue.queues:
        waits = [wait(job, run.cluster.now) for job in jobs[name]]
        yield TeamFigures(name, len(waits), quantile(waits, 0.5), quantile(waits, 0.95), work[name])


def wait(job: Job, now: float) -> float:
    """Seconds from its submission to its first admission; until `now` if it still waits."""
    return (now if job.first_admitted is None else job.first_admitted) - job.submitted


def _still_owed(jobs: Iterable[Job], now: float) -> Iterable[float]:
    for job in jobs:
        if job.owed_since is not None and job.ended is None:
            yield now - job.owed_since


def _is_stopped_twice(stops: Sequence[float]) -> bool:
    return any(later - earlier < TWICE_WITHIN_S for earlier, later in pairwise(stops))


def quantile(values: Iterable[float], part: float) -> float:
    """The smallest value that so many are not above; 0.0 of none."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
