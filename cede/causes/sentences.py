"""PURE. Causes as sentences: the same in `cede explain` and in the events of a job."""

from collections.abc import Iterator, Sequence

from cede.api.objects import unix
from cede.causes.facts import Cause


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
    """From the first cause that has a ground."""
    for cause in causes:
        if cause.estimate:
            earliest, latest = unix(cause.estimate.earliest), unix(cause.estimate.latest)
            return f"When: {cause.estimate.describe(now, earliest, latest)}."
    return "When: there is no ground for an estimate."
