"""What the pods of a job of four know of its coordinator, and tell each other."""

from dataclasses import replace

from elastic_runtime.agent.coordination import Standing
from elastic_runtime.agent.knowledge import Knowledge
from elastic_runtime.agent.membership_view import Limits
from elastic_runtime.messages import Record

LIMITS = Limits()
NOW = 100.0
LOST = NOW - LIMITS.leaderless_s
LONG_AGO = NOW - 60
RECORD = Record(3, (0, 1, 2, 3), ("a.1", "b.2", "c.1", "d.1"), "here", epoch=1)
LIVES = "abcd"


def member(index: int, *, answered_at: float = LONG_AGO, **more: object) -> Knowledge:
    """A member of generation 3 that lost its coordinator a minute ago, by default."""
    known = Knowledge(index, LIVES[index], RECORD, epoch=1, answered_at=answered_at)
    return replace(known, **more)  # type: ignore[arg-type]


def standing(index: int, *, members: int = 4, is_member: bool = True) -> Standing:
    return Standing(
        index,
        LIVES[index],
        epoch=1,
        record_epoch=1,
        generation=3,
        members=members,
        is_member=is_member,
    )
