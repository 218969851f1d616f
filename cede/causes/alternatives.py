"""PURE. What a Cession would have cost without one of its targets, in a sentence."""

from collections.abc import Sequence

from cede.api.alternative import Alternative, AlternativeJob
from cede.api.cession import Cession

WORDS = {"Shrink": "shrinking", "Drain": "draining", "Stop": "stopping"}


def alternatives_of(cession: Cession) -> list[str]:
    """A sentence for each alternative that the Cession records, in the order of its targets."""
    uids = [target.uid for target in cession.spec.targets]
    return [sentence for uid in uids if (sentence := alternative_to(cession, uid))]


def alternative_to(cession: Cession, uid: str) -> str:
    """The sentence about the target with this uid; empty if the Cession records none."""
    # there are few alternatives, and may be many targets
    for alternative in cession.spec.alternatives:
        if alternative.spared == uid:
            named = (f"{it.namespace}/{it.name}" for it in cession.spec.targets if it.uid == uid)
            return next((_sentence(spared, alternative) for spared in named), "")
    return ""


def _sentence(spared: str, alternative: Alternative) -> str:
    rule = alternative.reason.sentence
    if not alternative.jobs:
        return f"Without {spared}: {_lowered(rule)}"
    changes = _listed([_change(job) for job in alternative.jobs], alternative.moreJobs)
    return f"Instead of {spared}, {changes} would have {_cost(alternative)}: {_lowered(rule)}"


def _change(job: AlternativeJob) -> str:
    name = f"{job.namespace}/{job.name}"
    sizes = f" from {job.fromSize} to {job.toSize}" if job.how == "Shrink" else ""
    return f"{WORDS[job.how]} {name}{sizes}"


def _listed(changes: Sequence[str], more: int) -> str:
    if more:
        return f"{', '.join(changes)} and {more} more jobs"
    *first, last = changes
    return f"{', '.join(first)} and {last}" if first else last


def _cost(alternative: Alternative) -> str:
    if not alternative.costSeconds:
        return "been enough"
    cost_s = int(alternative.costSeconds)
    planned_s = int(alternative.plannedSeconds or 0)
    if cost_s == planned_s:
        return f"cost {_amount(cost_s)} as well"
    instead = f", not {_amount(planned_s)}" if planned_s else ""
    return f"cost {_amount(cost_s)}{instead}"


def _amount(seconds: int) -> str:
    """Accelerator-seconds for people."""
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} accelerator-{unit}"
    return f"{seconds} accelerator-seconds" if seconds else "nothing"


def _lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
