"""An agent's part in who coordinates the job: it follows a coordinator, votes, or is one itself."""

import asyncio
import logging
import secrets
from collections.abc import Coroutine, Iterable
from dataclasses import asdict, replace
from typing import Any

from elastic_runtime.agent import election, peers, succession
from elastic_runtime.agent.coordination import Ballot, Candidacy, Leader, Standing
from elastic_runtime.agent.coordinator import Coordinator
from elastic_runtime.agent.coordinator_client import CoordinatorClient, retry_delay_s
from elastic_runtime.agent.hang_detection import PausableClock
from elastic_runtime.agent.knowledge import NEVER, Answers, Knowledge, standing_of
from elastic_runtime.agent.peers import MAX_CALLS, Peer, Silence, Unnamed
from elastic_runtime.agent.settings import PodSettings
from elastic_runtime.agent.succession import Act, Reason
from elastic_runtime.agent.worker_pool import WorkerPool

log = logging.getLogger(__name__)
DECISION_INTERVAL_S = 0.05
# A pod that does not need the answers of all asks so many others in a round, besides pod 0.
ASKED = 2


class Leadership:
    def __init__(
        self,
        settings: PodSettings,
        pool: WorkerPool,
        client: CoordinatorClient,
        clock: PausableClock,
    ) -> None:
        self.settings = settings
        self.client = client
        # None if no coordinator was ever found.
        self.leader: Leader | None = None
        self._pool = pool
        self._clock = clock
        self._voted_at = NEVER
        self._asking_since = NEVER
        self._answers: Answers | None = None
        self._unnamed = Unnamed(client.limits.cut_off_s)
        self._standing_came_at = dict[int, float]()
        self._reason: Reason | None = None
        # Since a coordinator was last found: rounds of questions and of votes take turns.
        self._logged = set[Reason]()
        # A round of questions, and one of votes; the coordinator's loops, and those of its member.
        self._rounds = dict[Act, asyncio.Task[None]]()
        self._leading = list[asyncio.Task[Any]]()
        self._following = list[asyncio.Task[None]]()

    @property
    def coordinator(self) -> Coordinator | None:
        return self.client.coordinator

    @property
    def address(self) -> str:
        return f"{self.settings.address}:{self.client.port}"

    # --- decisions --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow, elect or be the job's coordinator, until cancelled."""
        try:
            while True:
                self._clock.tick()
                self._decide()
                for task in [*self._leading, *self._following]:
                    if task.done():
                        # Only a defect ends a loop: raise it.
                        task.result()
                await asyncio.sleep(DECISION_INTERVAL_S)
        finally:
            tasks = [*self._leading, *self._following, *self._rounds.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def knowledge(self) -> Knowledge:
        coordinator = self.coordinator
        return Knowledge(
            self.settings.index,
            self._pool.life,
            self._pool.record if coordinator is None else coordinator.view.record,
            epoch=self.client.epoch,
            leaving=self._pool.state.leaving,
            leads=coordinator is not None,
            misses_majority=coordinator.misses_majority() if coordinator else False,
            misses_pods=bool(coordinator and coordinator.view.astray),
            answered_at=self.client.answered_at,
            voted_at=self._voted_at,
            asking_since=self._asking_since,
            answers=self._answers,
        )

    def _decide(self) -> None:
        if self.coordinator and self.coordinator.reported_epoch > self.client.epoch:
            self.resign()
        now = self._clock()
        reason = succession.plan(self.knowledge(), now, self.client.limits)
        self._reason = reason
        if reason not in self._logged:
            self._logged.add(reason)
            log.info("coordinator", extra={"act": reason.act.value, "why": reason.sentence})
        match reason.act:
            case Act.FOLLOW | Act.LEAD:
                self._logged = {reason}
                self._asking_since = NEVER
                self._answers = None
                self._unnamed.clear()
            case Act.ASK:
                if self._asking_since == NEVER:
                    self._asking_since = now
                self._begin(reason.act, self._ask(self._asking_since))
            case Act.STAND:
                self._begin(reason.act, self._stand())
            case Act.SUCCEED:
                standings = self._answers.standings if self._answers else ()
                newest = max([self.client.epoch, *(standing.epoch for standing in standings)])
                epoch = succession.successor_epoch(newest, election.chance())
                self._lead(epoch, is_last_save=reason is Reason.LAST_SAVE)

    def _begin(self, act: Act, work: Coroutine[Any, Any, None]) -> None:
        """Start a round, unless one of its kind is under way."""
        last = self._rounds.get(act)
        if last and not last.done():
            work.close()
            return
        if last:
            last.result()
        self._rounds[act] = asyncio.create_task(work)

    # --- questions --------------------------------------------------------------------------------

    def standing(self) -> Standing:
        has_answered = self._clock() - self.client.answered_at < self.client.limits.leaderless_s
        is_followed = has_answered or self.coordinator
        return standing_of(self.knowledge(), self.leader if is_followed else None)

    def receive(self, other: Standing) -> Standing:
        """Take in what another agent knows. Returns what this one knows then."""
        leader = self.leader
        self._standing_came_at[other.index] = self._clock()
        if other.leader and other.leader.life != self._pool.life:
            self._follow(other.leader)
        elif leader and other.index == leader.index and other.life != leader.life:
            # The pod that coordinated was replaced.
            self.client.lose()
        elif self.coordinator and other.epoch > self.client.epoch and not other.leaving:
            self.resign()
        return self.standing()

    def _note(self, peer: Peer, answer: Standing | Silence) -> None:
        if isinstance(answer, Standing):
            self.receive(answer)
        elif answer is Silence.ABSENT and self.coordinator:
            self.coordinator.mark_gone(peer.index)

    async def _exchange(self, asked: Iterable[Peer]) -> list[Standing | Silence]:
        """What these answer to what this pod knows, which it takes in."""
        turns = asyncio.Semaphore(MAX_CALLS)

        async def exchange(peer: Peer) -> Standing | Silence:
            async with turns:
                answer = await peers.exchange(self.settings, peer, self.standing())
            answer = self._unnamed.settle(peer.index, answer, self._clock())
            self._note(peer, answer)
            return answer

        return await asyncio.gather(*map(exchange, asked))

    async def _ask(self, since: float) -> None:
        """Ask whom others follow, and take it in. `since`: when this pod began to ask."""
        asks_all = succession.asks_all(self.knowledge(), self._clock(), self.client.limits)
        asked = self._peers_to_ask(asks_all=asks_all)
        answers = await self._exchange(asked)
        pairs = zip(asked, answers, strict=True)
        silent = frozenset(peer.index for peer, answer in pairs if answer is Silence.UNKNOWN)
        standings = tuple(answer for answer in answers if isinstance(answer, Standing))
        if asks_all and since == self._asking_since:
            came_at = [self._standing_came_at.get(index, since) for index in silent]
            self._answers = Answers(standings, silent, max([since, *came_at]))
        await asyncio.sleep(retry_delay_s(self.client.heartbeat_s))

    def _peers_to_ask(self, *, asks_all: bool) -> list[Peer]:
        """A coordinator asks those that it misses, others all of them or pod 0 and any two."""
        own = self.settings.index
        if self.coordinator and self._reason is not Reason.ALONE:
            return [*map(self._peer, self.coordinator.view.astray)]
        if self.coordinator or (own and asks_all):
            return self._members()
        indexes = {*range(self.settings.largest), *self._pool.record.members} - {own}
        if own:
            others = sorted(indexes - {0})
            indexes = {0, *secrets.SystemRandom().sample(others, min(ASKED, len(others)))}
        return [self._peer(index) for index in sorted(indexes)]

    def _members(self) -> list[Peer]:
        """The other pods that elect, and pod 0."""
        record = self.knowledge().record
        indexes = {0, *record.members, *record.electors} - {self.settings.index}
        return [self._peer(index) for index in sorted(indexes)]

    def _peer(self, index: int) -> Peer:
        """A member by its address, where it is known: names are slow, and may be wrong for long."""
        address = self.client.addresses.get(index, "")
        is_member = index in self._pool.record.members
        if index and is_member and address:
            return Peer(index, address)
        return peers.find(self.settings, index)

    # --- votes ------------------------------------------------------------------------------------

    def vote(self, candidacy: Candidacy) -> Ballot:
        """The vote of this pod. A binding one it keeps for as long as it runs."""
        now = self._clock()
        reason = succession.refusal(self.knowledge(), candidacy, now, self.client.limits)
        if candidacy.is_binding and not reason:
            self.resign()
            self.client.epoch = candidacy.candidate.epoch
            self._voted_at = now
        return Ballot(not reason, reason, self.standing())

    async def _stand(self) -> None:
        """Ask for the members' votes: first whether they would, so that none is spent in vain."""
        record = self._pool.record
        candidate = Leader(
            self.settings.index,
            self._pool.life,
            self.address,
            succession.election_epoch(self.client.epoch, election.chance()),
        )
        candidacy = Candidacy(candidate, record.epoch, record.generation)
        self._voted_at = self._clock()
        if not await self._hold_election(candidacy):
            return
        if candidate.epoch <= self.client.epoch or self.coordinator:
            # It voted for another meanwhile.
            return
        self.client.epoch = candidate.epoch
        is_elected = await self._hold_election(replace(candidacy, is_binding=True))
        is_current = (self.client.epoch, self._pool.record.order) == (candidate.epoch, record.order)
        if is_elected and is_current:
            # The members have elected it for what it knows.
            self._answers = None
            self._lead(candidate.epoch)

    async def _hold_election(self, candidacy: Candidacy) -> bool:
        record, members = self._pool.record, self._members()
        return await election.hold(self.settings, record, candidacy, members, self.receive)

    # --- the coordinator --------------------------------------------------------------------------

    def _follow(self, leader: Leader) -> None:
        """Follow this coordinator, unless this pod follows or voted for a higher epoch."""
        is_followed = self.leader is not None and leader.epoch <= self.leader.epoch
        known, now = self.knowledge(), self._clock()
        if is_followed or not succession.may_follow(known, leader, now, self.client.limits):
            return
        self.resign()
        log.info("follows", extra=asdict(leader))
        self._set_leader(leader, leader.address)

    def _lead(self, epoch: int, *, is_last_save: bool = False) -> None:
        """Coordinate, from what this agent knows, and let the others know."""
        leader = Leader(self.settings.index, self._pool.life, self.address, epoch, is_last_save)
        kept, own = self.client.kept, self.settings
        sizes = (own.smallest, own.largest, own.base_size)
        view = succession.inherited(self.knowledge(), kept, leader, *sizes)
        log.info("leads", extra=asdict(leader) | {"generation": view.record.generation})
        coordinator = self.client.coordinator = Coordinator(own.smallest, inherited=view, kept=kept)
        self._set_leader(leader, "")
        announcing = self._exchange(self._members())
        self._leading = [asyncio.create_task(work) for work in (coordinator.run(), announcing)]

    def _set_leader(self, leader: Leader, address: str) -> None:
        self.leader = leader
        self._answers = None
        self._asking_since = NEVER
        for task in self._following:
            task.cancel()
        self.client.follow(address, leader.epoch)
        loops = (self.client.send_reports(), self.client.receive_replies())
        self._following = [asyncio.create_task(work) for work in loops]

    def resign(self) -> None:
        """Coordinate no more, if it does; another is or will be elected."""
        if self.coordinator is None:
            return
        log.info("resigns", extra={"epoch": self.client.epoch})
        self.client.epoch = max(self.client.epoch, self.coordinator.reported_epoch)
        self.client.coordinator = None
        self._asking_since = NEVER
        self._answers = None
        self.client.lose()
        for task in self._leading:
            task.cancel()
        self._leading = []
