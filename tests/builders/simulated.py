"""Small simulated clusters, with defaults."""

from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.cluster import Cluster
from scheduler.simulate.kueue import Kueue, Settings
from scheduler.simulate.objects import Job, JobSpec, TeamQuota, Workload

ASSUMPTIONS = Assumptions(start_s=10, eviction_s=2, checkpoint_s=100, step_s=1, handover_s=1)
STOCK = Settings(preempts=True, fair_sharing=False)


def teams(**nominal: int) -> list[TeamQuota]:
    return [TeamQuota(name, quota) for name, quota in nominal.items()]


def job_spec(
    name: str = "job",
    team: str = "vision",
    accelerators: int = 4,
    *,
    duration: float = 1000.0,
    priority: int = 50,
    sizes: tuple[int, ...] = (),
) -> JobSpec:
    return JobSpec(name, team, 0.0, accelerators, duration, priority, sizes)


def cluster(settings: Settings | None = None, **nominal: int) -> Cluster:
    """By default vision and research own four accelerators each."""
    quotas = teams(**(nominal or {"vision": 4, "research": 4}))
    return Cluster(quotas, settings or Settings(), ASSUMPTIONS)


def run(cluster: Cluster, seconds: float) -> None:
    cluster.clock.run(cluster.now + seconds)


def workload(
    name: str,
    team: str = "vision",
    count: int = 1,
    *,
    priority: int = 50,
    created: float = 0.0,
) -> Workload:
    spec = job_spec(name, team, count, priority=priority)
    job = Job(spec, count)
    job.workload = Workload(name, job, count, created)
    return job.workload


def admit(kueue: Kueue, name: str, team: str, count: int, *, now: float = 0.0) -> Workload:
    """A Workload that has quota since `now`."""
    admitted = workload(name, team, count)
    kueue.admit(admitted, now)
    return admitted
