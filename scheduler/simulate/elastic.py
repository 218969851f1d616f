"""PURE. Which jobs of a trace are taken as elastic: a trace does not say it."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from scheduler.simulate.objects import JobSpec

SMALLEST_PART = 4
"""An elastic job may run on a quarter of its accelerators."""


def make_elastic(jobs: Iterable[JobSpec], fraction: float, seed: int) -> list[JobSpec]:
    """This fraction of the jobs with more than one accelerator, the same ones for one seed."""
    return [_elastic(job) if _is_chosen(job, fraction, seed) else job for job in jobs]


def _is_chosen(job: JobSpec, fraction: float, seed: int) -> bool:
    if job.accelerators == 1:
        return False
    digest = hashlib.sha256(f"{seed}/{job.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64


def _elastic(job: JobSpec) -> JobSpec:
    smallest = max(1, job.accelerators // SMALLEST_PART)
    return replace(job, sizes=tuple(range(smallest, job.accelerators + 1)))
