"""PURE. Which pod coordinates the job: what one pod should do next by what it knows, and why.

An *epoch* is the time of one coordinator. Epochs only grow, and an agent obeys no coordinator of a
lower one than the highest that it follows or voted for. The members of the newest generation elect,
each with one vote in an epoch. Where no majority of members is left that could elect, pod 0 may
begin an epoch, and for a last save the first member that is left. Each chooses a new number at
random, so that no epoch has two coordinators. That of an election is above those that are begun
without votes meanwhile on the other side of a cut link.
"""

from collections.abc import Mapping
from enum import Enum

from elastic_runtime.agent.absentees import is_majority
from elastic_runtime.agent.coordination import Ballot, Candidacy, CoordinatorState, Leader, Standing
from elastic_runtime.agent.knowledge import (
    NEVER,
    Answers,
    Knowledge,
    is_voter,
    may_elect,
    standing_of,
    voters,
)
from elastic_runtime.agent.membership_view import Limits, View
from elastic_runtime.messages import Record

# An election is for an epoch above the next multiple of `TERM`, by at most `CHANCES`. One that is
# begun without votes is at most so much above the last.
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


def election_epoch(epoch: int, chance: int) -> int:
    """An epoch above this one that members may elect for; `chance` is from 1 to `CHANCES`."""
    return (epoch // TERM + 1) * TERM + chance


def successor_epoch(epoch: int, chance: int) -> int:
    """An epoch above this one that a pod may begin without votes."""
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
    has_asked = _has_asked_for(limits.cut_off_s, known, now)
    return has_asked and plan(known, now, limits) is Reason.OUTSIDE


def _has_asked_for(seconds: float, known: Knowledge, now: float) -> bool:
    """Whether this pod has asked others for a coordinator for so long."""
    return known.asking_since != NEVER and now - known.asking_since >= seconds


def asks_all(known: Knowledge, now: float, limits: Limits) -> bool:
    """Whether this pod needs the answers of all: pod 0 of every pod, a member of those that elect,
    once they have had the time to elect a coordinator."""
    if known.leads:
        return False
    if known.index == 0:
        return True
    election_s = limits.election_s if known.leaving else limits.gather_s
    has_waited = _has_asked_for(election_s, known, now)
    return has_waited and is_voter(known.record, known.index, known.life)


def may_follow(known: Knowledge, leader: Leader, now: float, limits: Limits) -> bool:
    """Whether this pod may follow a coordinator that it does not follow yet.

    Nobody voted for one that has the state saved for the last time. So it takes no pod away from
    another coordinator, and none that stays.
    """
    is_free = known.leaving and not _has_coordinator(known, now, limits)
    return leader.epoch >= known.epoch and (is_free or not leader.is_last_save)


def _has_coordinator(known: Knowledge, now: float, limits: Limits) -> bool:
    """False for one that coordinates while others may have elected another."""
    return plan(known, now, limits) in (Reason.LEADS, Reason.SEEKS, Reason.FOLLOWS)


def _saves_last(known: Knowledge, now: float, limits: Limits) -> bool:
    """Whether this member is the one under which those that are left save, because they all end.

    Pods that have not answered may train on behind a link. They have had the time to elect.
    """
    answers = known.answers
    if not known.leaving or answers is None or known.record.stop:
        # The members of a last generation save without a coordinator.
        return False
    if now - known.voted_at < limits.election_s:
        return False
    if answers.silent and now - answers.silent_since < limits.cut_off_s:
        return False
    newest = _newest(known, answers)
    members = [standing for standing in newest if standing.is_member or standing.is_elector]
    return (
        newest[0].order == known.record.order
        and not any(standing.leader for standing in answers.standings)
        and all(standing.leaving for standing in members)
        and known.index == min(standing.index for standing in members)
        and not may_elect(newest)
    )


def _found(known: Knowledge, now: float, limits: Limits) -> Reason:
    """Pod 0, without a coordinator: it begins no second job beside one that trains, as long as it
    waits for the pods that are silent. After that it can (decision 13, Cost)."""
    answers = known.answers
    if answers is None:
        return Reason.NOT_ASKED
    newest = _newest(known, answers)
    if may_elect(newest):
        return Reason.MEMBERS_ELECT
    has_begun = newest[0].generation > 0
    # A majority that trains behind a cut link must not lose its steps to the few on this side.
    silent_s = limits.abandoned_s if has_begun else limits.cut_off_s
    if answers.silent and now - answers.silent_since < silent_s:
        return Reason.PODS_SILENT
    return Reason.NO_MAJORITY if has_begun else Reason.FIRST


def _newest(known: Knowledge, answers: Answers) -> list[Standing]:
    """Of this pod and of those that answered: the standings that have the newest record."""
    standings = [standing_of(known), *answers.standings]
    newest = max(standing.order for standing in standings)
    return [standing for standing in standings if standing.order == newest]


def inherited(
    known: Knowledge,
    kept: CoordinatorState,
    leader: Leader,
    smallest: int,
    largest: int,
    base: int = 0,
) -> View:
    """What this pod, the leader, begins with when it coordinates. It does not continue an older
    record than others know: then it learns from their reports who trains. Every other pod may
    follow another coordinator, until it reports or certainly does not run. A last save does not
    wait for those that have not answered.
    """
    answers = known.answers or Answers()
    newest = _newest(known, answers)[0].order
    answered = {known.life, *(standing.life for standing in answers.standings)}
    voting = {life for lives in voters(known.record) for life in lives.values() if life}
    return View(
        record=known.record if known.record.order == newest else Record(),
        epoch=leader.epoch,
        astray=frozenset({*answers.silent, *range(largest)} - {known.index}),
        gone=frozenset(voting - answered) if leader.is_last_save else frozenset(),
        heard=newest,
        wanted=kept.wanted,
        cession=kept.cession,
        ordered_at=kept.ordered_at,
        smallest=smallest,
        base=base,
    )


def refusal(known: Knowledge, candidacy: Candidacy, now: float, limits: Limits) -> str:
    """Why this pod does not vote for the candidate; empty if it does.

    A pod with a bad link so deposes no coordinator that others reach, and a pod without the newest
    record, which decides who votes, becomes none.
    """
    if candidacy.candidate.epoch <= known.epoch:
        return f"it follows or voted for epoch {known.epoch}"
    if _has_coordinator(known, now, limits):
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
