"""PURE. The status, reason and message of one condition."""

from collections.abc import Iterable
from dataclasses import dataclass

from cede.api.objects import Json, set_condition
from cede.api.reasons import Reason


@dataclass(frozen=True)
class Verdict:
    """What one condition reports."""

    # None is Unknown
    status: bool | None
    reason: Reason
    # one sentence; with the cure, unless the status is True
    message: str


def with_verdict(
    conditions: Iterable[Json], type_: str, verdict: Verdict, *, generation: int, now: float
) -> list[Json]:
    """The conditions, with the one of this type replaced or added."""
    return set_condition(
        conditions,
        type_,
        verdict.status,
        verdict.reason,
        verdict.message,
        generation=generation,
        now=now,
    )
