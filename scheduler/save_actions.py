"""PURE. What a plan may ask for when a user wants a job saved: the request, and the answer."""

from dataclasses import dataclass

from cede.api import names
from cede.api.objects import Json, Key
from cede.api.reasons import SaveState, SchedulerEvent
from cede.api.save_request import SaveAnswer
from cede.api.surplus import Base


@dataclass(frozen=True, slots=True)
class RequestSave:
    """Ask a job's runtime to save now, once for each `attempt`. It may be repeated."""

    job: Key
    job_uid: str
    # IP addresses of its pods, in the order in which they are asked
    addresses: tuple[str, ...]
    # names the request of the user, and how often the job is asked for it
    attempt: str
    # of a surplus: what it belongs to
    base: Base | None = None

    @property
    def log_fields(self) -> dict[str, object]:
        return {"job": "/".join(self.job), "attempt": self.attempt}


@dataclass(frozen=True, slots=True)
class AnswerSave:
    """Note on a Job what became of the request, if the Job still has the version planned on."""

    job: Key
    job_uid: str
    version: str
    answer: SaveAnswer

    @property
    def log_fields(self) -> dict[str, object]:
        answer = self.answer
        facts = {"state": answer.state, "step": answer.step, "reason": answer.message}
        return {"job": "/".join(self.job)} | facts

    @property
    def event(self) -> tuple[SchedulerEvent, str] | None:
        """(reason, note) of a final answer."""
        answer = self.answer
        if answer.state == SaveState.SAVED:
            return SchedulerEvent.SAVED, f"step {answer.step}, requested by {answer.request}"
        if answer.state == SaveState.NOT_SAVED:
            return SchedulerEvent.NOT_SAVED, f"requested by {answer.request}: {answer.message}"
        return None

    @property
    def patch(self) -> Json:
        notes = {names.SAVE_ANSWER: self.answer.text()}
        return {"metadata": {"resourceVersion": self.version, "annotations": notes}}
