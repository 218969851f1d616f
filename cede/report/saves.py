"""PURE. What `cede checkpoint` says while a job is asked to save, and when that is over."""

from dataclasses import dataclass

from cede.api import names, save_request
from cede.api.kueue import Job
from cede.api.reasons import SaveState
from cede.api.save_request import SaveAnswer, SaveRequest


@dataclass(frozen=True)
class SaveProgress:
    sentence: str
    # None while it may still save
    has_saved: bool | None = None
    # the step that is saved
    step: int | None = None


def why_not_now(job: Job) -> str:
    """Why this job cannot be asked to save; empty if it can."""
    name = job.metadata.name
    if names.SIZES not in job.metadata.annotations:
        return (
            f"{name} is not elastic, and only elastic Jobs are asked to save while they run: "
            f"others save when they are stopped"
        )
    if job.has_ended:
        return f"{name} has ended"
    if job.spec.suspend:
        return f"{name} does not run: see `cede explain {name} -n {job.metadata.namespace}`"
    return ""


def progress(name: str, job: Job | None, request: str) -> SaveProgress:
    """Of the request, on the Job as it is now; None if there is no such Job any more."""
    if job is None:
        return SaveProgress(f"{name} was deleted before it had answered", has_saved=False)
    noted = save_request.read(job.metadata.annotations)
    if noted is None or noted.text != request:
        return SaveProgress(
            f"the request is not on {name} any more: another one has replaced it, or somebody "
            f"removed it",
            has_saved=False,
        )
    if noted.answer and noted.answer.is_final:
        return _final(name, noted.answer)
    if job.has_ended:
        return SaveProgress(f"{name} has ended before it had answered", has_saved=False)
    if job.spec.suspend:
        sentence = f"{name} was stopped before it had answered; it saves before it stops"
        return SaveProgress(sentence, has_saved=False)
    return SaveProgress(_sentence(name, noted))


def _final(name: str, answer: SaveAnswer) -> SaveProgress:
    if answer.state == SaveState.SAVED:
        sentence = f"{name} has saved step {answer.step}"
        return SaveProgress(sentence, has_saved=True, step=answer.step)
    return SaveProgress(f"{name} has not saved: {answer.message}", has_saved=False)


def _sentence(name: str, request: SaveRequest) -> str:
    answer = request.answer
    if answer is None:
        return f"{name} is to save; the scheduler has not seen that yet"
    if answer.state == SaveState.PENDING:
        return f"{name} does not train at present: it is asked to save once it does"
    sentence = f"{name} is asked to save, after step {answer.step}"
    return f"{sentence} and again, because it saved nothing" if answer.attempts > 1 else sentence
