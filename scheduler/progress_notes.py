"""PURE. What is noted of how far the elastic jobs are, and which notes are written now.

Requests are bounded: MAX_WRITES in a round of all namespaces together, whatever the jobs report.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from cede.api.job_progress import MAX_JOBS, MAX_REASON, NOTHING, JobProgress, Progress
from cede.api.objects import Key
from cede.api.short_text import cut
from elastic_runtime.contract import Status
from scheduler.faults import Faults
from scheduler.snapshot.observations import Observed

ROUND_S = 5.0
MAX_WRITES = 10
"""In a round, so two a second: in 30 namespaces each note is written every 15 s, in 100 every
50 s."""
MIN_INTERVAL_S = 15.0
"""Between two writes of a namespace."""
CONFIRM_S = 60.0
"""A note is written again after this time although nothing changed: the jobs still answer."""
RETRY_S = 60.0
"""After a write that failed."""
SILENT_S = 30.0
"""A job that does not answer for so long is silent."""
NOBODY = "none of its pods answers"


@dataclass(frozen=True, slots=True)
class Report:
    """What the scheduler knows of the runtime of one elastic job."""

    job: Key
    uid: str
    # whether a pod of it has an address
    has_pods: bool = True
    # None: it has not answered lately
    status: Status | None = None
    observed: Observed | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The note of a namespace in the cluster."""

    # None: not known, because the last write failed
    progress: Progress | None
    # when it was last written, or tried; Unix seconds
    tried: float = -math.inf


def notes(
    reports: Iterable[Report], before: Mapping[str, Progress], now: float, faults: Faults
) -> dict[str, Progress]:
    """By namespace, as it should be noted now. `before`: what this returned last. A job whose
    report cannot be noted becomes a fault, and keeps what was noted last."""
    jobs = defaultdict[str, dict[str, JobProgress]](dict)
    for report in reports:
        namespace = report.job[0]
        known = before.get(namespace, NOTHING).jobs.get(report.uid, JobProgress())
        progress = faults.attempt("/".join(report.job), known, progress_of, report, known, now)
        if progress != JobProgress():
            jobs[namespace][report.uid] = progress
    return {namespace: _bounded(of_namespace) for namespace, of_namespace in jobs.items()}


def due(wanted: Mapping[str, Progress], written: Mapping[str, Written], now: float) -> list[str]:
    """The namespaces whose notes are written now, those first that wait the longest."""
    never = Written(NOTHING)
    waiting = [
        (written.get(namespace, never).tried, namespace)
        for namespace in wanted.keys() | written.keys()
        if _is_due(wanted.get(namespace, NOTHING), written.get(namespace, never), now)
    ]
    return [namespace for _, namespace in sorted(waiting)[:MAX_WRITES]]


def progress_of(report: Report, before: JobProgress, now: float) -> JobProgress:
    """Of one job. A job that does not answer keeps what it last reported."""
    status, observed = report.status, report.observed or Observed()
    if status is None and not report.has_pods:
        # its pods start: nothing of it could answer
        return replace(before, silent_since=0, silence="")
    if status is None:
        since = before.silent_since or int(now)
        is_silent = now - since >= SILENT_S
        silence = _reason(observed.refusal) or NOBODY
        return replace(before, silent_since=since, silence=silence if is_silent else "")
    # the leader before may have seen the save
    saved = before.saved if before.saved_step == status.durableStep else 0
    if observed.saved_at and observed.durable_step == status.durableStep:
        saved = int(observed.saved_at)
    has_loss = status.loss is not None and math.isfinite(status.loss)
    return JobProgress(
        answered=int(now),
        step=status.step,
        saved_step=status.durableStep,
        saved=saved,
        loss=status.loss if has_loss else None,
        save_failure=_reason(status.saveMessage),
    )


def _reason(text: str) -> str:
    """A job reports any text."""
    return cut("".join(filter(str.isprintable, text)), MAX_REASON)


def _bounded(jobs: Mapping[str, JobProgress]) -> Progress:
    """If there are too many, those that do not answer, of which nobody else would tell, and then
    those that answered last. A job that left the note would be silent since then only."""
    if len(jobs) <= MAX_JOBS:
        return Progress(jobs)

    def order(entry: tuple[str, JobProgress]) -> tuple[bool, int, str]:
        uid, job = entry
        return not job.silent_since, -job.answered, uid

    return Progress(dict(sorted(jobs.items(), key=order)[:MAX_JOBS]), len(jobs) - MAX_JOBS)


def _is_due(wanted: Progress, written: Written, now: float) -> bool:
    if written.progress is None:
        return now - written.tried >= RETRY_S
    if now - written.tried < MIN_INTERVAL_S:
        return False
    return (
        wanted.left_out != written.progress.left_out
        or wanted.jobs.keys() != written.progress.jobs.keys()
        or any(_differs(wanted.jobs[uid], old) for uid, old in written.progress.jobs.items())
    )


def _differs(new: JobProgress, old: JobProgress) -> bool:
    return _what_is_shown(new) != _what_is_shown(old) or new.answered - old.answered >= CONFIRM_S


def _what_is_shown(job: JobProgress) -> JobProgress:
    return replace(job, answered=0, silent_since=job.silent_since if job.silence else 0)
