"""What a rank knows about its place in the job, and what the leading rank orders."""

from typing import Any, cast

import pytest

from elastic_runtime import messages
from elastic_runtime.distributed.group import Group
from elastic_runtime.messages import Record, WorkerMessage
from elastic_runtime.training.agent_link import AgentLink
from elastic_runtime.training.rank_lifecycle import RankLifecycle


class RecordingLink:
    """Of the only rank of pod 0, in pods of `ranks_per_pod` ranks."""

    def __init__(self, record: Record | None = None, ranks_per_pod: int = 1) -> None:
        self.record = record or Record()
        self.ranks_per_pod = ranks_per_pod
        self.pod_index = 0
        self.local_rank = 0
        self.save_requests = 0
        self.sent: list[WorkerMessage] = []

    def send(self, message: WorkerMessage) -> None:
        self.sent.append(message)

    def abort_on_loss(self, group: Group | None) -> None: ...


def lifecycle(link: RecordingLink, generation: int = 1, **more: Any) -> RankLifecycle:
    made = RankLifecycle(cast(AgentLink, link))
    made.generation = generation
    for name, value in more.items():
        setattr(made, name, value)
    return made


# --- rank and world -------------------------------------------------------------------------------


def test_a_rank_is_unknown_before_it_has_joined_a_generation() -> None:
    unjoined = lifecycle(RecordingLink(), generation=0)
    with pytest.raises(
        ValueError,
        match=(
            r"session.rank and session.world are known only inside the loop over session.steps: "
            r"move code that a single process runs into the loop"
        ),
    ):
        print(unjoined.rank_and_world)


def test_a_script_without_an_agent_is_rank_0_of_1() -> None:
    alone = RankLifecycle(None)
    assert alone.rank_and_world == (0, 1)
    assert alone.name == "0-0"
    assert alone.save_requests == 0


def test_a_job_of_one_cannot_recover_from_a_failed_step() -> None:
    with pytest.raises(RuntimeError, match="a step failed in a job of one"):
        RankLifecycle(None).abandon_step()


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
    assert lifecycle(link).next_orders(save=2).tolist() == [expected, 2]
    assert link.sent == [messages.Arrived()]


def test_other_ranks_order_nothing() -> None:
    link = RecordingLink(Record(2, (0, 1), store="host:1"))
    assert lifecycle(link, rank=1).next_orders(save=0).tolist() == [0, 0]
    assert link.sent == [messages.Arrived()]


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
