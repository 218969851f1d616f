"""PURE. Which jobs are asked to save now, because a user wants it, and what became of that."""

from collections.abc import Iterator
from dataclasses import replace

from cede.api.objects import rfc3339, unix_or_zero
from cede.api.reasons import SaveState
from cede.api.save_request import MAX_MESSAGE, SaveAnswer, SaveRequest
from elastic_runtime.contract import State, Status
from scheduler.save_actions import AnswerSave, RequestSave
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads import AdmittedWorkload

MAX_ATTEMPTS = 3
WAIT_S = 60.0
"""For a job that does not train, until the request fails."""
MIN_ATTEMPT_S = 60.0
MAX_ATTEMPT_S = 1800.0
STEPS_AND_SAVES = 3
"""An attempt lasts so many times the job's step and its last save, within these two limits: a step
ends before the save begins, and an earlier save before this one."""
SILENT = "none of its pods answers"
ENDED = (State.STOPPED, State.FINISHED)


def serve_saves(snapshot: Snapshot, now: float) -> Iterator[AnswerSave | RequestSave]:
    """The answer is written before the job is asked, so that the next leader continues from it."""
    for job in snapshot.elastic:
        request = job.save
        if request is None or not request.is_open or not job.is_elastic_job:
            continue
        answer = _next_answer(job, request, snapshot, now)
        if answer != request.answer:
            yield AnswerSave(job.job, job.job_uid, job.job_version, answer)
        elif answer.state == SaveState.ASKED and _attempt(answer) != job.observed.save_accepted:
            yield RequestSave(job.job, job.job_uid, job.addresses, _attempt(answer), job.base)


def _attempt(answer: SaveAnswer) -> str:
    return f"{answer.request}, attempt {answer.attempts}"


def _next_answer(
    job: AdmittedWorkload, request: SaveRequest, snapshot: Snapshot, now: float
) -> SaveAnswer:
    """What is true of the request now; the old answer if nothing has changed."""
    new = SaveAnswer(request.text, SaveState.PENDING, rfc3339(now))
    answer = request.answer or new
    duration_s = snapshot.seconds_since(unix_or_zero(answer.time), now)
    if answer.state == SaveState.PENDING:
        if job.runtime and job.runtime.state == State.TRAINING:
            return _ask(answer, job.runtime, now)
        return answer if duration_s < WAIT_S else _fail(answer, _why_not_training(job), now)
    runtime = job.runtime
    if runtime and _has_saved(answer, runtime):
        return _end(answer, SaveState.SAVED, now, step=runtime.durableStep)
    if runtime and runtime.saveMessage[:MAX_MESSAGE] not in ("", answer.message):
        return _fail(answer, runtime.saveMessage, now)
    limit_s = _limit_s(runtime)
    if duration_s < limit_s:
        return answer
    if reason := _why_nothing(job):
        return _fail(answer, reason, now)
    if runtime and answer.attempts < MAX_ATTEMPTS:
        # a request can be lost with a coordinator
        return _ask(answer, runtime, now)
    return _fail(answer, f"it saved nothing within {limit_s:.0f} s", now)


def _ask(answer: SaveAnswer, runtime: Status, now: float) -> SaveAnswer:
    return replace(
        answer,
        state=SaveState.ASKED,
        time=rfc3339(now),
        attempts=answer.attempts + 1,
        step=runtime.step,
        message=runtime.saveMessage[:MAX_MESSAGE],
    )


def _fail(answer: SaveAnswer, reason: str, now: float) -> SaveAnswer:
    return _end(answer, SaveState.NOT_SAVED, now, message=reason)


def _end(
    answer: SaveAnswer, state: SaveState, now: float, *, step: int = 0, message: str = ""
) -> SaveAnswer:
    return replace(
        answer, state=state, time=rfc3339(now), step=step or answer.step, message=message
    )


def _has_saved(answer: SaveAnswer, runtime: Status) -> bool:
    """A job that trains saves after the step in which it was asked. One that ends saves its last
    step, which may be the one that it had reported."""
    if runtime.state in ENDED:
        return runtime.durableStep >= max(answer.step, 1)
    return runtime.durableStep > answer.step


def _why_nothing(job: AdmittedWorkload) -> str:
    """Why the job has saved nothing in time, as far as anybody knows. A failure that it reported
    before it was asked counts only now: the next save may succeed."""
    if job.observed.save_refusal:
        return job.observed.save_refusal
    return job.runtime.saveMessage if job.runtime else SILENT


def _limit_s(runtime: Status | None) -> float:
    """A job may report any number."""
    if runtime is None:
        return MIN_ATTEMPT_S
    own_s = STEPS_AND_SAVES * (runtime.stepSeconds + runtime.saveSeconds)
    return min(max(MIN_ATTEMPT_S, own_s), MAX_ATTEMPT_S)


def _why_not_training(job: AdmittedWorkload) -> str:
    if job.runtime is None:
        return SILENT
    return f"it does not train: {job.runtime.busy or job.runtime.state}"
