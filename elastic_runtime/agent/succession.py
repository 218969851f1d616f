"""PURE. Which pod coordinates the job: what one pod should do next by what it knows, and why.

An *epoch* is the time of one coordinator. Epochs only grow, and an agent obeys no coordinator of a
lower one than the highest that it follows or voted for. The members of the newest generation elect,
each with one vote in an epoch. Pod 0 alone may begin an epoch where no majority of members is left
that could elect. Each chooses a new number at random, so that no epoch has two coordinators. That
of an election is above those that pod 0 begins meanwhile on the other side of a cut link.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from elastic_runtime.agent.absentees import is_majority
from elastic_runtime.agent.coordination import (
    Ballot,
    Candidacy,
    CoordinatorState,
    Leader,
    Standing,
    life_of,
)
from elastic_runtime.agent.membership_view import Limits, View
from elastic_runtime.messages import Record

# Of an agent that has no coordinator yet.
NEVER = float("-inf")
# An election is for an epoch above the next multiple of `TERM`, by at most `CHANCES`. Pod 0 adds at
# most so much to the last epoch.
TERM = 10**9
CHANCES = 10**6


class Act(Enum):
    FOLLOW = "follow the coordinator"
    LEAD = "coordinate"
    ASK = "ask others whom they follow"
    STAND = "ask the members for their votes"
    SUCCEED = "coordinate, in a new epoch"


class Reason(Enum):
    """Why an agent does what it does about the job's coordinator, in the order of the rules."""

    LEADS = Act.LEAD, "This pod coordinates, and the members that it misses cannot elect another."
    ALONE = Act.ASK, "This pod coordinates; members that it misses may have elected another."
    SEEKS = Act.ASK, "This pod coordinates; pods that it misses may follow another."
    FOLLOWS = Act.FOLLOW, "The coordinator has answered lately."
    LAST_SAVE = Act.SUCCEED, "All pods that are left are terminating, and too few to elect."
    OUTSIDE = Act.ASK, "The coordinator is lost, and this pod is no member that could elect."
    OTHERS_FIRST = Act.ASK, "The coordinator is lost; members before this one ask for votes first."
    STANDS = Act.STAND, "The coordinator is lost, and no other member was elected."
    # Pod 0 only.
    NOT_ASKED = Act.ASK, "Pod 0 has no coordinator, and asks every pod of the job first."
    MEMBERS_ELECT = Act.ASK, "A majority of the members is there, which elects."
    PODS_SILENT = Act.ASK, "Pods that do not answer may train under another coordinator."
    FIRST = Act.SUCCEED, "No pod knows a generation: pod 0 begins the job."
    NO_MAJORITY = Act.SUCCEED, "Too few members are left to elect: pod 0 takes over."

    def __init__(self, act: Act, sentence: str) -> None:
        self.act = act
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Answers:
    """What the other pods answered when all were asked last."""

    standings: tuple[Standing, ...] = ()
    # Pods that may run and did not answer. A name that does not exist, or a port where nobody
    # listens, is of a pod that does not run.
    silent: frozenset[int] = frozenset()


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


def election_epoch(epoch: int, chance: int) -> int:
    """An epoch above this one that members may elect for; `chance` is from 1 to `CHANCES`."""
    return (epoch // TERM + 1) * TERM + chance


def successor_epoch(epoch: int, chance: int) -> int:
    """An epoch above this one that pod 0 may begin without votes."""
    return epoch + chance


def stagger_s(known: Knowledge, limits: Limits) -> float:
    """How long a member lets those before it stand first: mostly one stands, and is elected."""
    position = sorted({*known.record.members, *known.record.electors}).index(known.index)
    return min(position * limits.stagger_s, limits.leaderless_s)


def plan(known: Knowledge, now: float, limits: Limits) -> Reason:
    """What this pod should do at `now` about the job's coordinator."""
    if known.leads:
        if known.misses_majority:
            return Reason.ALONE
        return Reason.SEEKS if known.misses_pods else Reason.LEADS
    if now - known.answered_at < limits.leaderless_s:
        return Reason.FOLLOWS
    votes = is_voter(known.record, known.index, known.life)
    if votes and _saves_last(known, now, limits):
        return Reason.LAST_SAVE
    if known.index == 0:
        reason = _found(known, now, limits)
        if not (votes and reason is Reason.MEMBERS_ELECT):
            return reason
    if not votes:
        return Reason.OUTSIDE
    # Who voted lets that election end first.
    waited_since = max(known.answered_at + limits.leaderless_s, known.voted_at + limits.election_s)
    if now - waited_since < stagger_s(known, limits):
        return Reason.OTHERS_FIRST
    return Reason.STANDS


def is_left_out(known: Knowledge, now: float, limits: Limits) -> bool:
    """Whether this pod is no member, and has looked for a coordinator for longer than a cut link is
    waited for."""
    has_asked = known.asking_since != NEVER and now - known.asking_since >= limits.cut_off_s
    return has_asked and plan(known, now, limits) is Reason.OUTSIDE


def asks_all(known: Knowledge) -> bool:
    """Whether this pod needs the answers of every pod of the job, not of any two."""
    return not known.leads and (known.index == 0 or known.leaving)


def _saves_last(known: Knowledge, now: float, limits: Limits) -> bool:
    """Whether this pod is the one under which those that are left save, because they all end.

    Pods that it does not reach may train on. Then their steps and checkpoints are later ones.
    """
    answers = known.answers
    if not known.leaving or answers is None:
        return False
    if answers.silent and now - known.asking_since < limits.cut_off_s:
        return False
    standings = [standing_of(known), *answers.standings]
    newest = [standing for standing in standings if standing.order == known.record.order]
    return (
        all(standing.leaving for standing in standings)
        and max(standing.order for standing in standings) == known.record.order
        and known.index == min(pod.index for pod in newest if pod.is_member or pod.is_elector)
        and not _may_elect(newest)
    )


def _found(known: Knowledge, now: float, limits: Limits) -> Reason:
    """Pod 0, without a coordinator: it begins no second job beside one that trains, as long as it
    waits for the pods that are silent. After that it can (decision 13, Cost)."""
    answers = known.answers
    if answers is None:
        return Reason.NOT_ASKED
    standings = [standing_of(known), *answers.standings]
    newest = max(standing.order for standing in standings)
    if _may_elect([standing for standing in standings if standing.order == newest]):
        return Reason.MEMBERS_ELECT
    # A majority that trains behind a cut link must not lose its steps to the few on this side.
    silent_s = limits.abandoned_s if newest[1] else limits.cut_off_s
    if answers.silent and now - known.asking_since < silent_s:
        return Reason.PODS_SILENT
    return Reason.NO_MAJORITY if newest[1] else Reason.FIRST


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


def inherited(
    known: Knowledge, kept: CoordinatorState, epoch: int, smallest: int, largest: int
) -> View:
    """What this pod begins with when it coordinates. It does not continue an older record than
    others know: then it learns from their reports who trains. Every other pod may follow another
    coordinator, until it reports or certainly does not run. Who is terminating has no time to wait
    for those that have not answered.
    """
    answers = known.answers or Answers()
    newest = max([known.record.order, *(standing.order for standing in answers.standings)])
    answered = {known.index, *(standing.index for standing in answers.standings)}
    waits = known.answers is None or not known.leaving
    lives = () if waits else voters(known.record)
    return View(
        record=known.record if known.record.order == newest else Record(),
        epoch=epoch,
        astray=frozenset({*answers.silent, *range(largest)} - {known.index}),
        gone=frozenset(pods[index] for pods in lives for index in pods.keys() - answered),
        heard=newest,
        wanted=kept.wanted,
        cession=kept.cession,
        ordered_at=kept.ordered_at,
        smallest=smallest,
    )


def _may_elect(standings: Sequence[Standing]) -> bool:
    """Whether these pods, which know the same record, are enough of those that elect."""
    members = sum(standing.is_member for standing in standings)
    electors = sum(standing.is_elector for standing in standings)
    return is_majority(members, standings[0].members) and (
        not standings[0].electors or is_majority(electors, standings[0].electors)
    )


def refusal(known: Knowledge, candidacy: Candidacy, now: float, limits: Limits) -> str:
    """Why this pod does not vote for the candidate; empty if it does.

    A pod with a bad link so deposes no coordinator that others reach, and a pod without the newest
    record, which decides who votes, becomes none.
    """
    if candidacy.candidate.epoch <= known.epoch:
        return f"it follows or voted for epoch {known.epoch}"
    if plan(known, now, limits) in (Reason.LEADS, Reason.SEEKS, Reason.FOLLOWS):
        return "it has a coordinator"
    if candidacy.order < known.record.order:
        return f"it knows generation {known.record.generation}"
    return ""


def is_elected(record: Record, candidate: Leader, ballots: Mapping[int, Ballot]) -> bool:
    """Whether a majority of the record's members voted for the candidate, and one of those before
    them while these elect too. The candidate votes for itself.
    """
    granted = {
        index: ballot.standing.life for index, ballot in ballots.items() if ballot.is_granted
    }
    granted[candidate.index] = candidate.life
    return all(_is_granted(lives, granted) for lives in voters(record))


def _is_granted(lives: Mapping[int, str], granted: Mapping[int, str]) -> bool:
    """Whether those who granted it are a majority of these, in the same lives."""
    voted = sum(lives.get(index) == life for index, life in granted.items())
    return is_majority(voted, len(lives))


def rule_table() -> str:
    """All rules as a Markdown table, in the order in which they are tried."""
    lines = ["| What an agent does | Reason |", "|---|---|"]
    lines += [f"| {reason.act.value} | {reason.sentence} |" for reason in Reason]
    return "\n".join(lines) + "\n"
