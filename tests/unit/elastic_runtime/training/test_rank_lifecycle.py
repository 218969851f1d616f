"""What a rank knows about its place in the job, and what the leading rank orders."""

import pytest
import torch

from elastic_runtime import messages
from elastic_runtime.distributed.recovery import RecoveryPlan
from elastic_runtime.messages import Record
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.rank_lifecycle import Entered, Joined, LeftOut, RankLifecycle
from tests.fakes.rank_lifecycle import (
    FakeGroup,
    RecordingLink,
    fake_group,
    lifecycle,
    next_generation,
)

# --- rank and world -------------------------------------------------------------------------------


def test_a_rank_is_unknown_before_it_has_joined_a_generation() -> None:
    unjoined = lifecycle(RecordingLink(), generation=0)
    with pytest.raises(
        ValueError,
        match=(
            r"session.rank and session.world are known only inside the loop over steps: "
            r"move code that a single process runs into the loop"
        ),
    ):
        print(unjoined.rank_and_world)


def test_a_script_without_an_agent_is_rank_0_of_1() -> None:
    alone = RankLifecycle(None)
    assert alone.rank_and_world == (0, 1)
    assert alone.name == "0-0"
    assert alone.save_requests == 0


# --- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(Record(2, (0, 1), store="host:1"), 2, id="a generation that can form"),
        pytest.param(Record(2, (0, 1)), 0, id="its store is not open yet"),
        pytest.param(Record(2, (), stop=True), 2, id="the job stops"),
        pytest.param(
            Record(2, (0,), store="host:1", abrupt=True), 0, id="a member was lost: at once"
        ),
        pytest.param(Record(1, (0,), store="host:1"), 0, id="the present one"),
    ],
)
def test_the_leading_rank_orders_the_generation_that_follows(record: Record, expected: int) -> None:
    link = RecordingLink(record)
    assert lifecycle(link).next_orders(save=2, stop=False).tolist() == [expected, 2, 0]
    assert link.sent == [messages.Arrived()]


def test_other_ranks_order_nothing() -> None:
    link = RecordingLink(Record(2, (0, 1), store="host:1"))
    assert lifecycle(link, rank=1).next_orders(save=0, stop=False).tolist() == [0, 0, 0]
    assert link.sent == [messages.Arrived()]


def test_any_rank_may_order_the_last_step() -> None:
    assert lifecycle(RecordingLink(), rank=1).next_orders(save=0, stop=True).tolist() == [0, 0, 1]


@pytest.mark.parametrize(("rank", "expected"), [(0, True), (1, False)])
def test_only_the_leading_rank_decides(rank: int, expected: bool) -> None:
    """Without a group nothing is summed, so each rank sees its own flag."""
    assert lifecycle(RecordingLink(), rank=rank).leader_decides(True) is expected


# --- the next generation --------------------------------------------------------------------------


def test_ranks_keep_their_order_within_a_pod_in_the_next_generation() -> None:
    """Pod 1 leaves, pod 3 joins; each pod has two ranks."""
    before = lifecycle(RecordingLink(ranks_per_pod=2), _members=(0, 1, 2))
    assert before.next_ranks(Record(2, (0, 2, 3))) == (0, 1, -1, -1, 2, 3)


def test_a_parked_rank_reports_its_step_and_has_no_group() -> None:
    link = RecordingLink()
    parked = lifecycle(link)
    parked.park(Record(4, (1,)), step=7)
    assert parked.group is None
    assert parked.generation == 4
    assert link.sent == [messages.Parked(7, 4)]


# --- to learn of it and join it -------------------------------------------------------------------


def test_a_rank_joins_the_generation_that_forms(made_groups: list[FakeGroup]) -> None:
    link = RecordingLink(newer=(Record(2, (0,), store="host:1"),))
    joining = lifecycle(link, generation=0)
    joined = next_generation(joining)
    assert isinstance(joined, Joined)
    assert joined.recovery == RecoveryPlan(7, (), (0,), ())
    assert link.guarded is joined.group
    assert (joining.generation, joining.group) == (0, None), "it has not entered it"
    assert joining.enter(joined) == Entered(joined.record, 0, some_left=False, pause_s=None)
    assert (joining.generation, joining.group) == (2, joined.group)


def test_the_pause_of_a_rank_that_trained_counts_from_its_last_step(
    made_groups: list[FakeGroup],
) -> None:
    """Pod 1 has left."""
    before = fake_group()
    link = RecordingLink(newer=(Record(2, (0,), store="host:1"),))
    joining = lifecycle(link, group=before, world=2, _members=(0, 1))
    joined = next_generation(joining)
    assert isinstance(joined, Joined)
    entered = joining.enter(joined)
    assert (entered.previous_world, entered.some_left) == (2, True)
    assert entered.pause_s is not None
    assert before.is_closed


def test_the_agent_learns_that_a_rank_waits_for_a_planned_generation(
    made_groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it meets the others, one of which may never come."""
    link = RecordingLink(newer=(Record(2, (0,), store="host:1"),))
    sent_before = list[messages.WorkerMessage]()
    monkeypatch.setattr(FakeGroup, "connect", lambda *_: sent_before.extend(link.sent))
    next_generation(lifecycle(link, group=fake_group()))
    assert sent_before == [messages.Joining()]


def test_a_model_that_does_not_fit_is_a_mistake(
    made_groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank of pod 0 comes second, to a job with another model."""
    other = torch.tensor([7, 0, 1, -1, 0, 99])
    monkeypatch.setattr(FakeGroup, "all_gather", lambda self, tensor: [other, tensor])
    link = RecordingLink(newer=(Record(2, (1, 0), store="host:1"),))
    with pytest.raises(Mistake, match="the model of this worker has other parameters"):
        next_generation(lifecycle(link))


def test_a_change_that_was_planned_before_a_loss_is_given_up(made_groups: list[FakeGroup]) -> None:
    """Ranks that leave with it have handed nothing over."""
    aborted = fake_group()
    aborted.abort()
    after_loss = Record(3, (0,), store="host:1", abrupt=True)
    link = RecordingLink(newer=(Record(2, (0, 1), store="host:1"), after_loss))
    joined = next_generation(lifecycle(link, group=aborted))
    assert isinstance(joined, Joined)
    assert joined.record == after_loss
    assert link.sent == [messages.Joining(), messages.Broken(2)]
    assert [group.generation for group in made_groups] == [3]


@pytest.mark.parametrize("record", [Record(2, (0,), stop=True), Record(2, (1,))])
def test_a_rank_is_left_out_if_the_job_stops_or_trains_without_it(record: Record) -> None:
    link = RecordingLink(newer=(record,))
    assert next_generation(lifecycle(link)) == LeftOut(record)
    assert link.sent == [messages.Joining()]
