"""PURE. How much of its work a job has done, has saved, and loses by a stop."""

from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.objects import Job


def start(job: Job, now: float) -> None:
    """The job's pods train from now on, from its last checkpoint."""
    job.settled = now
    job.saved = job.done
    job.saved_at = now


def settle(job: Job, now: float, assumptions: Assumptions) -> None:
    """Afterwards `done` and `saved` are those of now."""
    job.done += (now - job.settled) * job.training
    job.settled = now
    if job.training:
        saves = (now - job.saved_at) // assumptions.checkpoint_s
        if saves > 0:
            job.saved_at += saves * assumptions.checkpoint_s
            job.saved = max(job.saved, job.done - (now - job.saved_at) * job.training)


def save(job: Job, now: float) -> None:
    """The job saved everything."""
    job.saved = job.done
    job.saved_at = now


def lose(job: Job, now: float) -> None:
    """A stop: what was not saved has to be done again."""
    job.discarded += job.done - job.saved
    job.lost += job.done - job.saved
    job.done = job.saved
    job.stops.append(now)
