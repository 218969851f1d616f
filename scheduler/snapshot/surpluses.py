"""PURE. The surpluses of JobSets and TrainJobs, also those that wait."""

from collections.abc import Iterable
from dataclasses import dataclass

from cede.api import names
from cede.api.kueue import Job
from cede.api.surplus import Base


@dataclass(frozen=True, slots=True)
class Surplus:
    # of its Job
    uid: str
    base: Base
    # whether the Job of the base exists whose pods train
    has_base: bool


def read_surpluses(jobs: Iterable[Job]) -> tuple[Surplus, ...]:
    jobs = list(jobs)
    # nearly all end here: there may be thousands
    noted = [job for job in jobs if names.SURPLUS_OF in job.metadata.annotations]
    if not noted:
        return ()
    uids = {job.metadata.uid for job in jobs}
    bases = ((job, Base.parse(job.metadata.annotations[names.SURPLUS_OF])) for job in noted)
    return tuple(
        Surplus(job.metadata.uid, base, base.job_uid in uids) for job, base in bases if base
    )
