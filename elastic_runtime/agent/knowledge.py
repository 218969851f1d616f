"""PURE. What one pod knows of who coordinates the job, and what it tells the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from elastic_runtime.agent.absentees import is_majority
from elastic_runtime.agent.coordination import Leader, Standing, life_of
from elastic_runtime.messages import Record

# Of an agent that has no coordinator yet.
NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Answers:
    """What the other pods answered when all were asked last."""

    standings: tuple[Standing, ...] = ()
    # Pods that may run and did not answer. A name that does not exist, or a port where nobody
    # listens, is of a pod that does not run.
    silent: frozenset[int] = frozenset()
    # When the last answer of any of them came, or when this pod began to ask.
    silent_since: float = NEVER


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What one pod knows. Times are seconds of its own clock, which stands still while it does."""

    index: int
    # Of its agent: another one in the same pod has another.
    life: str
    record: Record = field(default_factory=Record)
    # The highest epoch that this pod follows or voted for.
    epoch: int = 0
    leads: bool = False
    # It received SIGTERM.
    leaving: bool = False
    # If it leads: members that have not reported lately could elect another.
    misses_majority: bool = False
    # If it leads: other pods may train under another coordinator.
    misses_pods: bool = False
    # When the coordinator last answered.
    answered_at: float = NEVER
    # When this pod last voted for another, or asked for votes.
    voted_at: float = NEVER
    # Since when it asks others for a coordinator, and their newest answers if it has asked all.
    asking_since: float = NEVER
    answers: Answers | None = None


def voters(record: Record) -> tuple[Mapping[int, str], ...]:
    """The lives of the agents that elect, by index: the members, and those before while they could
    elect without them. A majority of each is needed.
    """
    members = dict(zip(record.members, map(life_of, record.incarnations), strict=True))
    electors = dict(zip(record.electors, record.elector_lives, strict=True))
    return (members, electors) if electors else (members,)


def is_voter(record: Record, index: int, life: str) -> bool:
    return any(lives.get(index) == life for lives in voters(record))


def standing_of(known: Knowledge, leader: Leader | None = None) -> Standing:
    """What this pod tells others of itself and of its coordinator."""
    record = known.record
    members, *electors = voters(record)
    return Standing(
        known.index,
        known.life,
        epoch=known.epoch,
        leader=leader,
        record_epoch=record.epoch,
        generation=record.generation,
        members=len(members),
        is_member=members.get(known.index) == known.life,
        electors=len(record.electors),
        is_elector=any(lives.get(known.index) == known.life for lives in electors),
        leaving=known.leaving,
    )


def may_elect(standings: Sequence[Standing]) -> bool:
    """Whether these pods, which know the same record, are enough of those that elect."""
    members = sum(standing.is_member for standing in standings)
    electors = sum(standing.is_elector for standing in standings)
    return is_majority(members, standings[0].members) and (
        not standings[0].electors or is_majority(electors, standings[0].electors)
    )
