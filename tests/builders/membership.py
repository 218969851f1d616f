"""Pods of a job as its coordinator knows them, for tests of membership decisions."""

from collections.abc import Iterable

from elastic_runtime.agent.membership_view import Limits, Member, View
from elastic_runtime.messages import Record

LIMITS = Limits()
NOW = 100.0
LONG_AGO = NOW - 60
GENERATION = 3


def member(
    index: int,
    *,
    incarnation: str = "",
    generation: int = GENERATION,
    members: tuple[int, ...] = (),
    ready: bool = True,
    leaving: bool = False,
    parked: bool = False,
    finished: bool = False,
    broken: int = 0,
    reported_at: float = NOW,
    first_reported_at: float = LONG_AGO,
) -> Member:
    """A pod that trains in generation 3, by default."""
    return Member(
        index,
        incarnation or f"life-{index}",
        address=f"10.0.0.{index}",
        generation=generation,
        members=members,
        ready=ready,
        leaving=leaving,
        parked=parked,
        finished=finished,
        broken=broken,
        reported_at=reported_at,
        first_reported_at=first_reported_at,
    )


def outside(index: int, *, ready: bool = True, parked: bool = False) -> Member:
    """A pod that trains in no generation."""
    return member(index, generation=0, ready=ready, parked=parked)


def restarted(index: int, *, first_reported_at: float = NOW) -> Member:
    """A pod whose processes died and were started again."""
    return member(index, incarnation="next-life", generation=0, first_reported_at=first_reported_at)


def view(
    pods: Iterable[Member],
    members: tuple[int, ...] = (0, 1, 2, 3),
    *,
    generation: int = GENERATION,
    stop: bool = False,
    wanted: int | None = None,
    smallest: int = 1,
    started_at: float = LONG_AGO,
    changed_at: float = LONG_AGO,
    broke_at: float | None = None,
) -> View:
    """A job whose current generation has these `members`."""
    incarnations = tuple(f"life-{index}" for index in members)
    return View(
        record=Record(generation, members, incarnations, "10.0.0.0:1", stop=stop),
        members={pod.index: pod for pod in pods},
        wanted=wanted,
        smallest=smallest,
        started_at=started_at,
        broke_at=broke_at,
        changed_at=changed_at,
    )


def new_coordinator(
    pods: Iterable[Member],
    *,
    wanted: int | None = None,
    smallest: int = 1,
    started_at: float = LONG_AGO,
) -> View:
    """A job of which the coordinator knows no generation."""
    return View(
        members={pod.index: pod for pod in pods},
        wanted=wanted,
        smallest=smallest,
        started_at=started_at,
        changed_at=LONG_AGO,
    )


FOUR = [member(index) for index in range(4)]
# They have not formed generation 3 yet.
BEHIND = [member(index, generation=2) for index in range(3)]
