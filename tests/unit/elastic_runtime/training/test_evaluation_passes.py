"""What a rank does in an evaluation, and what it tells its agent."""

from typing import Any, cast

import pytest
import torch

from elastic_runtime import Deterministic, Session, messages
from elastic_runtime.data.evaluation_data import EvaluationData
from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.messages import Record
from elastic_runtime.training import evaluation_passes
from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.evaluation_passes import Call, EvaluationPasses, Ranks, Resized
from elastic_runtime.training.step import Step
from tests.builders.sessions import small_session
from tests.fakes.rank_lifecycle import RecordingLink

MEMBERS = ((0, 1), ("a", "b"))


class VotingGroup:
    """Of several ranks, of which the others have no vote of their own."""

    def __init__(self) -> None:
        self.is_aborted = False
        self.votes = list[list[float]]()

    def all_reduce(self, votes: torch.Tensor) -> "VotingGroup":
        self.votes.append(votes.tolist())
        return self

    def wait(self) -> None:
        """The votes are here."""


class Rank:
    """Rank 0 of two, in generation 1. `in_step`: a step is in flight."""

    def __init__(self, *, in_step: bool = True, strategy: Any = None) -> None:
        self.session = small_session(strategy=strategy)
        step: Step = next(self.session.steps(1))
        self.link = RecordingLink()
        lifecycle = self.session._parts.lifecycle
        lifecycle.link = cast(AgentLink, self.link)
        lifecycle.generation = 1
        lifecycle.processes = MEMBERS
        self.step = step if in_step else None
        self.session._transaction.step = self.step
        self.group = VotingGroup()
        self.passes = EvaluationPasses(self.session._parts, self.session._transaction)

    def plan(self, **record: Any) -> None:
        self.link.record = Record(2, store="here:1", **record)

    def run(self, samples: int = 4, world: int = 2) -> list[int]:
        """The micro-batches of this rank."""
        evaluated = list[int]()

        def function(indices: list[int]) -> dict[str, int]:
            evaluated.extend(indices)
            return {"a": 1}

        data = EvaluationData(samples, 1)
        call = Call((0, True, 0), data, function, self.step, was_stopping=False)
        self.passes.run(call, Ranks(cast(Group, self.group), 0, world))
        return evaluated


def test_a_rank_evaluates_its_own_micro_batches() -> None:
    assert Rank().run() == [0, 1]


def test_with_a_sharded_model_a_rank_repeats_a_pass_that_only_others_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rank = Rank()
    assert rank.run(samples=1, world=3) == []
    monkeypatch.setattr(rank.session.strategy, "shard_group_size", lambda world: world)
    assert rank.run(samples=1, world=3) == [0]


def test_a_planned_generation_interrupts_it() -> None:
    rank = Rank()
    rank.plan(members=(0, 1, 2), incarnations=("a", "b", "c"))
    with pytest.raises(Resized):
        rank.run()
    assert rank.session.model.training


@pytest.mark.parametrize(
    ("members", "incarnations", "interrupts"),
    [
        pytest.param((0,), ("a",), True, id="a shrink"),
        pytest.param((0, 1, 2), ("a", "b", "c"), False, id="a growth"),
        pytest.param((0, 1), ("a", "new"), False, id="a pod that was restarted"),
    ],
)
def test_between_two_steps_new_ranks_wait(
    members: tuple[int, ...], incarnations: tuple[str, ...], interrupts: bool
) -> None:
    """They would begin the next step, and never come to this evaluation."""
    rank = Rank(in_step=False)
    rank.plan(members=members, incarnations=incarnations)
    if interrupts:
        with pytest.raises(Resized):
            rank.run()
    else:
        assert rank.run() == [0, 1]


def test_behind_the_loop_no_generation_is_joined() -> None:
    rank = Rank(in_step=False)
    rank.session._transaction.has_ended = True
    rank.plan(members=(0,), incarnations=("a",))
    assert rank.run() == [0, 1]


def test_a_loss_ends_it_between_two_passes() -> None:
    rank = Rank()
    rank.group.is_aborted = True
    with pytest.raises(PeerLost):
        rank.run()


def lose_a_peer(session: Session) -> None:
    """In the step that is in flight."""
    strategy: Any = session.strategy
    if isinstance(strategy, Deterministic):
        strategy._peer_lost = True
    else:
        strategy._buckets.broken = True
    assert strategy.broken


@pytest.mark.parametrize("strategy", [None, Deterministic()], ids=["replicated", "deterministic"])
def test_a_rank_that_was_lost_in_the_step_before_it_does_not_end_it(strategy: Any) -> None:
    """As in a loop with `commit`, which is False then."""
    rank = Rank(in_step=False, strategy=strategy)
    lose_a_peer(rank.session)
    assert rank.run() == [0, 1]


def test_a_rank_that_is_lost_in_a_pass_of_a_sharded_model_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rank = Rank()
    monkeypatch.setattr(rank.session.strategy, "shard_group_size", lambda world: world)
    lose_a_peer(rank.session)
    with pytest.raises(PeerLost):
        rank.run()


def test_every_pass_is_progress_also_right_after_a_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the agent would think that this rank waits, when it may hang in the pass."""
    monkeypatch.setattr(evaluation_passes, "REPORT_INTERVAL_S", 0.0)
    rank = Rank()
    rank.run(samples=6)
    rank.passes.report_end()
    sent = [message for message in rank.link.sent if isinstance(message, messages.Evaluating)]
    assert [(message.micro_batches, message.waits) for message in sent] == [
        (1, True),
        (1, False),
        (1, True),
        (2, False),
        (3, False),
        (3, True),
        (0, False),
    ]


def test_the_leading_rank_decides_how_many_passes_lie_between_two_votes() -> None:
    rank = Rank()
    rank.run(samples=20)
    # The first vote is for one pass, which shows how long one takes.
    assert rank.group.votes[0] == [0, 0, 1]
    assert rank.group.votes[1][2] > 10
    assert len(rank.group.votes) == 2
