"""A pod of the model of elections: what its agent knows, and what it does with it."""

from dataclasses import dataclass, field

from elastic_runtime.agent import absentees, succession
from elastic_runtime.agent.coordination import (
    Ballot,
    Candidacy,
    CoordinatorState,
    Leader,
    MemberReport,
    Standing,
)
from elastic_runtime.agent.knowledge import NEVER, Answers, Knowledge, standing_of
from elastic_runtime.agent.membership_view import Limits, View
from elastic_runtime.messages import Record

LIMITS = Limits()


@dataclass
class Workers:
    """The processes of a pod: they are started again when they die."""

    incarnation: str = ""
    ready_at: float = 0.0
    # The newest generation that they formed or gave up, and the one that they train in.
    tried: int = 0
    generation: int = 0
    members: tuple[int, ...] = ()
    broken: int = 0
    # Their next attempt to connect to the others fails.
    cannot_connect: bool = False
    trained: tuple[int, int] = (0, 0)
    # They have saved, and handed over their state.
    parked: bool = False
    # The newest step of their state; None without a state.
    step: int | None = None


@dataclass
class Election:
    candidacy: Candidacy
    record: Record
    until: float
    ballots: dict[int, Ballot] = field(default_factory=dict)


@dataclass
class Pod:
    index: int
    life: str
    # Of its own clock, which stands still while it is frozen.
    now: float = 0.0
    up: bool = True
    # Its agent, and whether its workers train on meanwhile.
    is_frozen: bool = False
    trains_on: bool = False
    # It received SIGTERM.
    leaving: bool = False
    starts: int = 0
    workers: Workers = field(default_factory=Workers)
    record: Record = field(default_factory=Record)
    newest_generation: int = 0
    kept: CoordinatorState = field(default_factory=CoordinatorState)
    epoch: int = 0
    leader: Leader | None = None
    answered_at: float = NEVER
    voted_at: float = NEVER
    view: View | None = None
    reported_epoch: int = 0
    asking_since: float = NEVER
    answers: Answers | None = None
    # A round of questions: until when, and the answers so far, None from one that is silent.
    asked_until: float = NEVER
    asked: dict[int, Standing | None] = field(default_factory=dict)
    asks_all: bool = False
    standing_came_at: dict[int, float] = field(default_factory=dict)
    election: Election | None = None

    def start_workers(self, ready_at: float) -> None:
        self.starts += 1
        self.workers = Workers(f"{self.life}.{self.starts}", ready_at)

    def knowledge(self) -> Knowledge:
        view = self.view
        return Knowledge(
            self.index,
            self.life,
            view.record if view else self.record,
            epoch=self.epoch,
            leads=view is not None,
            leaving=self.leaving,
            misses_majority=bool(view and absentees.misses_majority(view, self.now, LIMITS)),
            misses_pods=bool(view and view.astray),
            answered_at=self.answered_at,
            voted_at=self.voted_at,
            asking_since=self.asking_since,
            answers=self.answers,
        )

    def standing(self) -> Standing:
        has_answered = self.now - self.answered_at < LIMITS.leaderless_s
        is_followed = has_answered or self.view
        return standing_of(self.knowledge(), self.leader if is_followed else None)

    def lose(self) -> None:
        self.answered_at = min(self.answered_at, self.now - LIMITS.leaderless_s)

    def resign(self) -> None:
        if self.view:
            self.epoch = max(self.epoch, self.reported_epoch)
            self.view = None
            self.answers = None
            self.asking_since = self.asked_until = NEVER
            self.lose()

    def follow(self, leader: Leader) -> None:
        is_followed = self.leader is not None and leader.epoch <= self.leader.epoch
        may = succession.may_follow(self.knowledge(), leader, self.now, LIMITS)
        if not is_followed and may:
            self.resign()
            self.set_leader(leader)

    def set_leader(self, leader: Leader) -> None:
        self.leader = leader
        self.epoch = leader.epoch
        self.answered_at = self.now
        self.answers = None
        self.asking_since = self.asked_until = NEVER

    def receive(self, other: Standing) -> None:
        self.standing_came_at[other.index] = self.now
        if other.leader and other.leader.life != self.life:
            self.follow(other.leader)
        elif self.leader and other.index == self.leader.index and other.life != self.leader.life:
            self.lose()
        elif self.view and other.epoch > self.epoch and not other.leaving:
            self.resign()

    def vote(self, candidacy: Candidacy) -> Ballot:
        reason = succession.refusal(self.knowledge(), candidacy, self.now, LIMITS)
        if candidacy.is_binding and not reason:
            self.resign()
            self.epoch = candidacy.candidate.epoch
            self.voted_at = self.now
        return Ballot(not reason, reason, self.standing())

    def set_record(self, record: Record, now: float) -> None:
        self.newest_generation = max(self.newest_generation, self.record.generation)
        if record.generation and not record.continues(*self.workers.trained):
            self.start_workers(now + 1.0)
        self.record = record

    def report(self) -> MemberReport:
        workers = self.workers
        return MemberReport(
            self.index,
            workers.incarnation,
            address="here",
            epoch=self.epoch,
            generation=workers.generation,
            members=workers.members,
            ready=workers.ready_at == 0.0,
            leaving=self.leaving,
            parked=workers.parked,
            broken=workers.broken,
            newest_generation=max(self.newest_generation, self.record.generation),
            trained_epoch=workers.trained[0],
            trained_generation=workers.trained[1],
            record_epoch=self.record.epoch,
            record_generation=self.record.generation,
            kept=self.kept,
        )
