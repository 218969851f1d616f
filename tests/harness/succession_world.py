"""Random lives of a job whose coordinator may be lost, frozen or cut off like any other pod.

All decisions are those of the pure modules that agents use. What agents do with them is modelled:
messages that are late, lost or doubled, and workers that train when their links allow it.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from elastic_runtime.agent import absentees, membership, membership_view, size_orders, succession
from elastic_runtime.agent.coordination import Candidacy, CoordinatorState, Leader
from elastic_runtime.agent.coordinator_client import merge_kept
from elastic_runtime.agent.knowledge import NEVER, Answers
from elastic_runtime.agent.membership_view import View
from elastic_runtime.agent.succession import Act, Reason
from elastic_runtime.contract import SizeRequest
from elastic_runtime.messages import Record
from tests.harness.succession_network import Network
from tests.harness.succession_pod import LIMITS, Election, Pod
from tests.harness.succession_training import Training

TICK_S = 0.1
# A round of questions, or of votes, is over then.
ROUND_S = 1.0


class World(Network):
    """Pods of one job, and what their agents decide."""

    def __init__(self, seed: int, pods: int) -> None:
        super().__init__(random.Random(seed))  # noqa: S311
        self.lives = 0
        # When the newest order for a size was signed.
        self.signed_at = 0.0
        # Epoch → the life that coordinates in it.
        self.leaders = dict[int, str]()
        self.training = Training(self.pods, self.reaches, self.random)
        for index in range(pods):
            self.start_pod(index)

    def start_pod(self, index: int) -> None:
        """A new pod, which knows nothing."""
        self.lives += 1
        self.pods[index] = Pod(index, f"life{self.lives}")
        self.pods[index].start_workers(self.now + 0.5)

    # --- agents -----------------------------------------------------------------------------------

    def tick(self) -> None:
        self.now += TICK_S
        self.deliver()
        for pod in self.pods.values():
            if pod.up and not pod.is_frozen:
                pod.now += TICK_S
                self.act(pod)
                self.report(pod)
        self.training.pass_time(self.now)

    def act(self, pod: Pod) -> None:
        if pod.view and pod.reported_epoch > pod.epoch:
            pod.resign()
        self.end_rounds(pod)
        reason = succession.plan(pod.knowledge(), pod.now, LIMITS)
        match reason.act:
            case Act.FOLLOW | Act.LEAD:
                pod.asking_since = NEVER
                pod.answers = None
            case Act.ASK:
                if pod.asking_since == NEVER:
                    pod.asking_since = pod.now
                self.ask(pod, reason)
            case Act.STAND:
                self.stand(pod)
            case Act.SUCCEED:
                answers = pod.answers or Answers()
                heard = max([pod.epoch, *(standing.epoch for standing in answers.standings)])
                self.training.may_be_split |= bool(answers.silent)
                epoch = succession.successor_epoch(heard, self.chance())
                self.lead(pod, epoch, is_last_save=reason is Reason.LAST_SAVE)
        if pod.view:
            self.coordinate(pod, pod.view)

    def ask(self, pod: Pod, reason: Reason) -> None:
        if pod.asked_until != NEVER:
            return
        others = set(self.pods) - {pod.index}
        asks_all = succession.asks_all(pod.knowledge(), pod.now, LIMITS)
        if pod.view:
            is_alone = reason is Reason.ALONE
            record = pod.view.record
            asked = {0, *record.members, *record.electors} if is_alone else {*pod.view.astray}
        elif pod.index == 0:
            asked = others
        elif asks_all:
            asked = {0, *pod.record.members, *pod.record.electors}
        else:
            asked = {0, *self.random.sample(sorted(others), 2)}
        asked -= {pod.index}
        pod.asks_all = asks_all
        pod.asked_until = pod.now + ROUND_S
        pod.asked = {}
        for index in asked:
            is_absent = not self.pods[index].up and self.reaches(pod.index, index)
            if is_absent and self.reaches(index, pod.index):
                # Its port refuses connections.
                if pod.view:
                    pod.view = absentees.without(pod.view, index)
                continue
            pod.asked[index] = None
            self.exchange(pod, index)

    def exchange(self, pod: Pod, index: int) -> None:
        sent = pod.standing()

        def at_target(other: Pod) -> Callable[[Pod], None]:
            other.receive(sent)
            answer = other.standing()

            def take_in(caller: Pod) -> None:
                if caller.asked_until != NEVER and index in caller.asked:
                    caller.asked[index] = answer
                caller.receive(answer)

            return take_in

        self.call(pod, index, at_target)

    def end_rounds(self, pod: Pod) -> None:
        if pod.asked_until != NEVER and pod.now >= pod.asked_until:
            pod.asked_until = NEVER
            standings = [answer for answer in pod.asked.values() if answer]
            silent = frozenset(index for index, answer in pod.asked.items() if answer is None)
            if pod.asks_all:
                came_at = [pod.standing_came_at.get(index, NEVER) for index in silent]
                since = max([pod.asking_since, *came_at])
                pod.answers = Answers(tuple(standings), silent, since)
        election = pod.election
        if election is None:
            return
        candidacy = election.candidacy
        epoch = candidacy.candidate.epoch
        is_elected = succession.is_elected(election.record, candidacy.candidate, election.ballots)
        if not is_elected:
            pod.election = None if pod.now >= election.until else election
        elif candidacy.is_binding:
            pod.election = None
            if (pod.epoch, pod.record.order) == (epoch, election.record.order):
                pod.answers = None
                self.lead(pod, epoch)
        elif epoch > pod.epoch and not pod.view:
            pod.epoch = epoch
            self.hold(pod, replace(candidacy, is_binding=True), election.record)
        else:
            pod.election = None

    def chance(self) -> int:
        return self.random.randint(1, succession.CHANCES)

    def stand(self, pod: Pod) -> None:
        if pod.election:
            return
        epoch = succession.election_epoch(pod.epoch, self.chance())
        candidate = Leader(pod.index, pod.life, "here:1", epoch)
        pod.voted_at = pod.now
        self.hold(pod, Candidacy(candidate, *pod.record.order), pod.record)

    def hold(self, pod: Pod, candidacy: Candidacy, record: Record) -> None:
        pod.election = election = Election(candidacy, record, pod.now + ROUND_S)

        def at_target(other: Pod) -> Callable[[Pod], None]:
            ballot = other.vote(candidacy)

            def count(caller: Pod) -> None:
                election.ballots[ballot.standing.index] = ballot
                caller.receive(ballot.standing)

            return count

        for index in {*record.members, *record.electors} - {pod.index}:
            self.call(pod, index, at_target)

    def lead(self, pod: Pod, epoch: int, *, is_last_save: bool = False) -> None:
        life = self.leaders.setdefault(epoch, pod.life)
        assert life == pod.life, f"two pods coordinate in epoch {epoch}"
        leader = Leader(pod.index, pod.life, "here:1", epoch, is_last_save)
        view = succession.inherited(pod.knowledge(), pod.kept, leader, 1, len(self.pods))
        pod.view = replace(view, started_at=pod.now, changed_at=pod.now)
        pod.reported_epoch = epoch
        pod.election = None
        pod.set_leader(leader)
        for index in {0, *pod.record.members, *pod.record.electors} - {pod.index}:
            self.exchange(pod, index)

    # --- the coordinator --------------------------------------------------------------------------

    def coordinate(self, pod: Pod, view: View) -> None:
        view = membership_view.merge_report(view, pod.report(), pod.now)
        missed, view = view.astray, absentees.confirm(view, pod.now, LIMITS)
        self.training.may_be_split |= bool(view.astray - missed)
        decision = membership.plan(view, pod.now, LIMITS)
        if decision.record:
            assert decision.record.order > view.record.order
            view = absentees.announce(view, decision.record)
        pod.view = view
        self.apply(pod, view.epoch, view.record, self.kept_of(view))

    def kept_of(self, view: View) -> CoordinatorState:
        return CoordinatorState(view.wanted, view.cession, view.ordered_at)

    def report(self, pod: Pod) -> None:
        if pod.view or pod.leader is None or pod.leader.life == pod.life:
            return
        leader, sent = pod.leader, pod.report()

        def at_leader(other: Pod) -> Callable[[Pod], None] | None:
            view = other.view
            if view:
                other.reported_epoch = max(other.reported_epoch, sent.epoch)
            if view is None or sent.epoch > view.epoch:
                return lambda caller: caller.lose() if caller.leader == leader else None
            before = view.ordered_at
            other.view = view = membership_view.merge_report(view, sent, other.now)
            assert view.ordered_at >= before, "a newer order was undone"
            epoch, record, kept = view.epoch, view.record, self.kept_of(view)
            return lambda caller: self.apply(caller, epoch, record, kept)

        self.call(pod, leader.index, at_leader)

    def apply(self, pod: Pod, epoch: int, record: Record, kept: CoordinatorState) -> None:
        if epoch < pod.epoch:
            return
        pod.epoch = epoch
        pod.answered_at = pod.now
        before = pod.kept.ordered_at
        pod.kept = merge_kept(pod.kept, kept)
        assert pod.kept.ordered_at >= before, "a newer order was undone"
        if record.order >= pod.record.order and record != pod.record:
            # The same record without electors may arrive before the one with them.
            is_older = record.order == pod.record.order and bool(record.electors)
            if not is_older:
                pod.set_record(record, self.now)

    def request_size(self, index: int, size: int, signed_at: float) -> None:
        """A controller asks any pod, which forwards to the coordinator that it follows."""
        pod = self.pods[index]
        if pod.view is None or not pod.up:
            return
        order = size_orders.obey(pod.view, SizeRequest(size, "c"), signed_at, pod.now)
        is_older = signed_at < pod.view.ordered_at
        assert not (is_older and order.is_new), "an older order undid a newer one"
        pod.view = order.view

    # --- faults -----------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK_S)):
            self.tick()

    def heal(self) -> None:
        self.cut.clear()
        self.loss = self.doubled = 0.0
        for pod in list(self.pods.values()):
            pod.is_frozen = False
            if not pod.up:
                self.start_pod(pod.index)
