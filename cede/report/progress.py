"""PURE. How far a job is: as its runtime reports it now, or as it did when it last ceded."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cede.api import durations
from cede.api.cession_status import TargetStatus
from cede.api.job_progress import JobProgress
from cede.api.objects import rfc3339, unix


@dataclass(frozen=True)
class Reported:
    """None and an empty text: not known. The times are RFC 3339, by the scheduler's clock."""

    step: int | None = None
    loss: float | None = None
    # the newest step that is saved, 0 if none is, and when the scheduler saw that
    saved_step: int | None = None
    saved: str = ""
    # when it reported all that
    reported: str = ""
    # why its last save failed; empty if it did not
    save_failure: str = ""
    # why it does not answer, and since when; empty if it does
    silence: str = ""
    silent_since: str = ""


UNKNOWN = Reported()


def when_it_ceded(target: TargetStatus) -> Reported:
    """What a target of a Cession reported then."""
    return Reported(
        step=target.step, saved_step=target.durableStep, reported=target.cededTime or ""
    )


def as_noted(noted: JobProgress) -> Reported:
    """What the scheduler has noted of it."""
    # a command under `--signal` reports no step
    is_known = noted.answered > 0 and noted.step > 0
    has_loss = noted.loss is not None and math.isfinite(noted.loss)
    return Reported(
        step=noted.step if is_known else None,
        loss=noted.loss if is_known and has_loss else None,
        saved_step=noted.saved_step if is_known else None,
        saved=_time(noted.saved) if noted.saved_step else "",
        reported=_time(noted.answered),
        save_failure=noted.save_failure,
        silence=noted.silence,
        silent_since=_time(noted.silent_since) if noted.silence else "",
    )


def newer(noted: Reported, ceded: Reported) -> Reported:
    """The one that was reported later. That a job is silent is only noted, and stays."""
    if unix(ceded.reported) > unix(noted.reported) and not noted.silence:
        return ceded
    return noted


def sentences(reported: Reported, now: float) -> Iterator[str]:
    """For `cede explain`; nothing if nothing is known."""
    when = f"{age(reported.reported, now)} ago"
    if reported.step is not None:
        step = f"step {reported.step}{_loss(reported)}"
        yield f"Its runtime reported {step}, {when}; {_save(reported, now)}."
    elif reported.reported:
        yield f"Its runtime answered {when}, and has reported no step."
    if reported.save_failure:
        yield f"Its last save failed: {reported.save_failure.rstrip('.')}."
    if reported.silence:
        yield (
            f"Its runtime has not answered the scheduler for {age(reported.silent_since, now)}: "
            f"{reported.silence.rstrip('.')}."
        )


def cells(reported: Reported, now: float) -> Iterator[str]:
    """Step, loss, the newest save, and when that was reported; empty: not known."""
    yield "" if reported.step is None else str(reported.step)
    yield "" if reported.loss is None else f"{reported.loss:.4g}"
    saved = "" if reported.saved_step is None else str(reported.saved_step)
    yield f"{saved}, {age(reported.saved, now)} ago" if reported.saved else saved
    if reported.silence:
        yield f"silent for {age(reported.silent_since, now)}"
    else:
        yield f"{age(reported.reported, now)} ago" if reported.reported else ""


def age(time: str, now: float) -> str:
    return durations.describe(now - unix(time))


def _loss(reported: Reported) -> str:
    return "" if reported.loss is None else f" with loss {reported.loss:.4g}"


def _save(reported: Reported, now: float) -> str:
    if not reported.saved_step:
        return "it has reported no save"
    when = f", {age(reported.saved, now)} ago" if reported.saved else ""
    return f"its newest save is of step {reported.saved_step}{when}"


def _time(seconds: int) -> str:
    """Empty for 0, and for what is no time: members may write the note."""
    try:
        return rfc3339(seconds) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""
