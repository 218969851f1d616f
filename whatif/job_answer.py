"""PURE. What becomes of the job that was asked for, and why."""

from collections.abc import Iterator, Sequence

from cede.api.objects import Key
from cede.api.resources import Quota, describe_amounts
from scheduler.quota.assignments import assignments
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import PendingWorkload
from whatif.answer import JobAnswer, JobState
from whatif.changes import Effect
from whatif.passes import Course
from whatif.submission import Submission


def refused(key: Key, complaints: Sequence[str]) -> JobAnswer:
    """By the webhook."""
    why = tuple(f"Cede's webhook refuses it: {complaint}" for complaint in complaints)
    return JobAnswer(*key, JobState.REFUSED, None, why)


def answer_job(asked: Submission, course: Course, after: Snapshot) -> JobAnswer:
    """`after`: when nothing changes any more."""
    for change in course.changes:
        if (change.namespace, change.job) == asked.key and change.effect is Effect.ADMITTED:
            state = JobState.ADMITTED_AFTER_TAKE_BACK if change.rule else JobState.ADMITTED
            return JobAnswer(*asked.key, state, change.after_s, (change.why,))
    pending = after.find_pending(asked.workload.metadata.uid)
    if pending is None:
        # stopped again, or its queue is none of ours
        why = "its ClusterQueue is not in the Cohort of Cede"
        return JobAnswer(*asked.key, JobState.WAITS, None, (why,))
    state = JobState.WAITS if _may_fit(pending, after) else JobState.NEVER_FITS
    return JobAnswer(*asked.key, state, None, tuple(_why_it_waits(pending, course, after)))


def _may_fit(pending: PendingWorkload, snapshot: Snapshot) -> bool:
    """Whether its team could have so much if nobody used anything."""
    return any(not _beyond(request, pending, snapshot) for request in _requests(pending, snapshot))


def _requests(pending: PendingWorkload, snapshot: Snapshot) -> list[Quota]:
    return list(assignments(pending.pod_sets, snapshot.quota.queues[pending.queue]))


def _beyond(request: Quota, pending: PendingWorkload, snapshot: Snapshot) -> Quota:
    """What of the request its team could never have."""
    quota = snapshot.quota
    return +Quota(
        {key: amount - quota.potential(pending.queue, key) for key, amount in request.items()}
    )


def _why_it_waits(pending: PendingWorkload, course: Course, snapshot: Snapshot) -> Iterator[str]:
    if pending.ineligible:
        yield f"Kueue would not try it: {pending.ineligible}"
        return
    requests = _requests(pending, snapshot)
    if not requests:
        yield (
            f"no instance type of team {pending.queue} has what its pods request, or their node "
            f"selectors and tolerations keep them off: change the request or the allocation"
        )
        return
    if not _may_fit(pending, snapshot):
        beyond = _beyond(requests[0], pending, snapshot)
        yield (
            f"even if nobody else used anything, team {pending.queue} could not have "
            f"{describe_amounts(beyond)} of what it requests: request less, or raise what the team "
            f"owns or may borrow"
        )
        return
    subject = f"{pending.name} ({pending.queue}) "
    # some begin with why nothing is done
    sentences = [
        text for text in course.sentences if text.startswith(subject) or f": {subject}" in text
    ]
    yield from sentences[-1:]
    if not sentences:
        missing = snapshot.quota.missing(pending.queue, requests[0])
        yield (
            f"it lacks {describe_amounts(missing)}, and jobs that come before it in the queue wait "
            f"as well"
        )
