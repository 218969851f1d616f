"""PURE. Causes as sentences: the same in `cede explain` and in the events of a job."""

from collections.abc import Iterator, Sequence

from cede.api.objects import unix
from cede.causes.facts import Cause

NO_TIME = "nothing of this ends at a known time"


def sentences(causes: Sequence[Cause], now: float, *, waits: bool) -> Iterator[str]:
    """Each cause with its reason, what would change it and, of a job that waits or is stopped,
    when."""
    for cause in causes:
        yield f"{cause.sentence} [{cause.reason}]"
    cures = dict.fromkeys(cause.cure for cause in causes if cause.cure)
    if cures:
        yield f"What would change it: {'; or '.join(cures)}."
    if waits and causes:
        yield _when(causes, now)


def _when(causes: Sequence[Cause], now: float) -> str:
    """From the first cause that has a ground; else why there is none."""
    for cause in causes:
        if cause.estimate:
            earliest, latest = unix(cause.estimate.earliest), unix(cause.estimate.latest)
            return f"When: {cause.estimate.describe(now, earliest, latest)}."
    reasons = (cause.no_estimate for cause in causes if cause.no_estimate)
    return f"When: not known: {next(reasons, NO_TIME)}."
