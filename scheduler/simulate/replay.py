"""PURE. Replays a window of a trace under one way of sharing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from cede.api.policy import PolicySpec
from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Settings
from scheduler.simulate.objects import Job, JobSpec, TeamQuota
from scheduler.simulate.simulated_scheduler import SimulatedScheduler

SAMPLES = 200
"""Points of the picture."""


class Way(StrEnum):
    """How the teams share the cluster."""

    STOCK = "stock Kueue"
    CEDE = "Cede"
    PRIVATE = "private partitions"


SETTINGS = {
    Way.STOCK: Settings(shares=True, fair_sharing=False, preempts=True),
    Way.CEDE: Settings(shares=True, fair_sharing=True, preempts=False),
    Way.PRIVATE: Settings(shares=False, fair_sharing=False, preempts=True),
}


@dataclass(frozen=True, slots=True)
class Window:
    """The part of the trace that is replayed, in its own seconds."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment of a run; accelerators."""

    # since the window began
    seconds: float
    in_use: int
    # that elastic jobs have beyond their smallest sizes
    grown: int
    # that are idle although elastic jobs could grow by them
    wanted: int


@dataclass(slots=True)
class Run:
    """What happened in a window under one way of sharing."""

    way: Way
    cluster: Cluster
    window: Window
    # submitted in the window; the others ran already when it began
    jobs: list[Job] = field(default_factory=list)
    earlier: list[Job] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    begin: float = 0.0
    cessions: int = 0
    passes: int = 0

    @property
    def all_jobs(self) -> list[Job]:
        return [*self.earlier, *self.jobs]


Progress = Callable[[Way, float], None]
"""Called now and then with the part of the window that is done, 0 to 1."""


def replay(
    jobs: Sequence[JobSpec],
    teams: Sequence[TeamQuota],
    window: Window,
    way: Way,
    assumptions: Assumptions,
    progress: Progress,
) -> Run:
    """Jobs of before the window that would still run in it are there when it begins."""
    cluster = Cluster(teams, SETTINGS[way], assumptions)
    run = Run(way, cluster, window, begin=cluster.now)
    for spec in jobs:
        if window.start <= spec.submit < window.end:
            event = partial(_submit, run, _as_run(spec, way), run.jobs)
            cluster.clock.at_time(run.begin + spec.submit - window.start, event)
        elif spec.submit < window.start < spec.submit + spec.duration:
            rest = replace(spec, duration=spec.submit + spec.duration - window.start)
            _submit(run, _as_run(rest, way), run.earlier)
    scheduler = SimulatedScheduler(cluster, PolicySpec())
    if way is Way.CEDE:
        scheduler.start()
    length = window.end - window.start
    for number in range(1, SAMPLES + 1):
        cluster.clock.run(run.begin + length * number / SAMPLES)
        run.samples.append(_sample(cluster, cluster.now - run.begin))
        progress(way, number / SAMPLES)
    cluster.count()
    run.cessions = len(scheduler.cessions)
    run.passes = scheduler.passes
    return run


def _sample(cluster: Cluster, seconds: float) -> Sample:
    queues = cluster.kueue.queues.values()
    in_use = sum(queue.usage for queue in queues)
    idle = sum(queue.quota.nominal for queue in queues) - in_use
    elastic = [job for job in cluster.jobs.values() if job.is_elastic and job.ready]
    grown = sum(job.workload.count - job.spec.sizes[0] for job in elastic)
    growth = sum(job.spec.sizes[-1] - job.workload.count for job in elastic)
    return Sample(seconds, in_use, grown, min(idle, growth))


def _as_run(spec: JobSpec, way: Way) -> JobSpec:
    """Without Cede no job is elastic."""
    return spec if way is Way.CEDE else replace(spec, sizes=())


def _submit(run: Run, spec: JobSpec, jobs: list[Job]) -> None:
    jobs.append(run.cluster.submit(spec))
