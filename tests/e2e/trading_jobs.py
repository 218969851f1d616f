"""The jobs of teams that trade: elastic ones that train all the while, small ones that come and
go."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cede.api import names
from tests.e2e.conftest import create, elastic_job
from tests.e2e.trading_picture import job_of, look, running
from tests.e2e.training import Training

# the fixture of tests/conftest.py
Cluster = Any
NO_LIMIT = 1_000_000


@dataclass(frozen=True)
class Elastic:
    """An elastic job of a team."""

    team: str
    priority_class: str
    fewest_pods: int
    most_pods: int


ELASTIC_JOBS = {
    "gpt": Elastic("research", "training", 2, 5),
    "tune": Elastic("vision", "sweep", 2, 3),
}
"""By name. The first borrows from the team of the second, which cedes to jobs of its own team."""


def create_elastic_job(cluster: Cluster, name: str) -> Training:
    """One of ELASTIC_JOBS."""
    elastic = ELASTIC_JOBS[name]
    most = elastic.most_pods
    job = elastic_job(elastic.team, f"{elastic.fewest_pods}-{most}", most)
    labels = {names.PRIORITY_CLASS: elastic.priority_class}
    job["metadata"] |= {"name": name, "labels": labels}
    # for Kubernetes a killed agent is a failure of its script
    job["spec"]["backoffLimit"] = NO_LIMIT
    create(cluster, job)
    return Training(cluster, elastic.team, name)


def trains_on_all(job: Training) -> Callable[[], bool]:
    """Whether as many pods as it may have did the last step."""
    return job.trains_on(ELASTIC_JOBS[job.job].most_pods)


def has_quota(job: Training) -> bool:
    """Whether a Workload of this job is admitted."""
    return any(job_of(workload) == job.job for workload in running(look(job.cluster)))


def small_jobs(cluster: Cluster, team: str) -> list[str]:
    """As kubectl names them: the jobs of a team that are not elastic."""
    jobs = cluster.kubectl("get", "jobs", "-n", team, "-o", "name").split()
    return [job for job in jobs if job.partition("/")[2] not in ELASTIC_JOBS]
