"""A pod's state follows the messages of its ranks."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime import messages
from elastic_runtime.agent.coordination import CoordinatorState, WorkDone
from elastic_runtime.agent.hang_detection import Pulse
from elastic_runtime.agent.pod_state import PodState, merged
from elastic_runtime.agent.worker_process import WorkerProcess
from elastic_runtime.messages import Progress, Record, WorkerMessage

PROGRESS = st.builds(
    Progress,
    step=st.none() | st.integers(0, 9),
    loss=st.none() | st.floats(0, 9),
    message=st.none() | st.text(max_size=3),
    finished=st.none() | st.just(True),
)


class FakeWorker:
    """The fields of a worker process that its messages change."""

    def __init__(self) -> None:
        self.ready = False
        self.parked = False
        self.arrived = False
        self.finished = False
        self.ended = False
        self.joins = False
        self.changes = 0
        self.steps = 0
        self.evaluated = 0
        self.since_step_s = 0.0
        self.step_seconds: list[float] = []

    def pulse(self) -> Pulse:
        return Pulse(since_step_s=self.since_step_s)

    def receive_ready(self) -> None:
        self.ready = True
        self.joins = True

    def change_generation(self, *, joins: bool) -> None:
        self.joins = joins
        self.arrived = False
        self.changes += 1

    def evaluate(self, micro_batches: int, *, waits: bool) -> None:
        self.evaluated = micro_batches
        self.arrived = waits

    def commit_step(self, seconds: float) -> None:
        self.arrived = False
        self.steps += 1
        self.step_seconds.append(seconds)


class Pod:
    """Two ranks, and the pod's state."""

    def __init__(self) -> None:
        self.state = PodState("life-1")
        self.ranks = [FakeWorker(), FakeWorker()]

    def receive(self, rank: int, message: WorkerMessage) -> PodState:
        workers = cast(list[WorkerProcess], self.ranks)
        self.state.receive(workers[rank], workers, message)
        return self.state


def test_pod_is_ready_or_parked_when_all_its_ranks_are() -> None:
    pod = Pod()
    assert not pod.receive(0, messages.Ready(4)).ready
    assert pod.receive(1, messages.Ready(2)).ready
    assert pod.state.newest_generation == 4
    pod.receive(0, messages.Formed(5, (0, 1), 7))
    assert not pod.receive(0, messages.Parked(8)).parked
    assert pod.receive(1, messages.Parked(8)).parked
    assert (pod.state.generation, pod.state.step) == (0, 8)
    assert not pod.receive(0, messages.Formed(6, (0, 1), 8)).parked


def test_pod_waits_while_a_rank_has_arrived() -> None:
    pod = Pod()
    assert pod.receive(1, messages.Arrived()).waits
    assert not pod.receive(1, messages.StepCommitted(3, 0.5, 0.1)).waits
    assert pod.ranks[1].step_seconds == [0.1]
    assert pod.state.progress == Progress(step=3, loss=0.5, seconds=0.1)


def test_pod_waits_while_a_rank_waits_in_an_evaluation_and_this_is_no_part_of_a_step() -> None:
    pod = Pod()
    for rank in pod.ranks:
        rank.steps = 5
    assert not pod.receive(0, messages.Evaluating(3)).waits
    assert pod.ranks[0].evaluated == 3
    assert pod.receive(1, messages.Evaluating(2, waits=True)).waits
    assert not pod.receive(1, messages.Evaluating(0)).waits
    assert pod.state.own_s == 0.0


def test_pod_waits_while_a_rank_waits_in_a_collective_of_its_script() -> None:
    """That is no end of its part of the step, and no progress."""
    pod = Pod()
    for rank in pod.ranks:
        rank.steps = 5
    assert pod.receive(0, messages.Waiting(waits=True)).waits
    assert not pod.receive(0, messages.Waiting(waits=False)).waits
    assert pod.state.own_s == 0.0


def test_own_part_of_a_step_ends_when_the_last_rank_waits() -> None:
    """Without the first step of a generation, which includes the pause."""
    pod = Pod()
    for step, seconds in enumerate((9.0, 0.2, 0.4, 0.3)):
        for index, rank in enumerate(pod.ranks):
            rank.since_step_s = seconds * (index + 1)
            pod.receive(index, messages.Arrived())
        for index in (0, 1):
            pod.receive(index, messages.StepCommitted(step, 0.5, 1.0))
    assert pod.state.own_s == 0.6
    assert pod.receive(0, messages.Formed(6, (0, 1), 8)).own_s == 0.0


@pytest.mark.parametrize(
    ("message", "joins"),
    [
        (messages.Ready(), True),
        (messages.Formed(5, (0, 1), 7), False),
        (messages.Joining(), True),
        (messages.Broken(5), True),
        (messages.Parked(8), True),
        (messages.Finished(), False),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bool) else "",
)
@pytest.mark.parametrize("joined_before", [False, True])
def test_a_rank_joins_while_it_waits_for_a_generation(
    message: WorkerMessage, joins: bool, joined_before: bool
) -> None:
    pod = Pod()
    pod.ranks[1].joins = joined_before
    pod.receive(1, message)
    assert (pod.ranks[1].joins, pod.ranks[0].joins) == (joins, False)


def test_newest_broken_generation_is_kept() -> None:
    pod = Pod()
    pod.receive(0, messages.Broken(5))
    assert pod.receive(1, messages.Broken(4)).broken == 5
    assert [rank.changes for rank in pod.ranks] == [1, 1]


def test_long_message_is_shortened_on_arrival() -> None:
    pod = Pod()
    state = pod.receive(0, Progress(message="x" * 100_000, durable_step=3))
    assert len(state.progress.message or "") == 500
    assert state.progress.durable_step == 3


def test_report_holds_the_whole_state() -> None:
    pod = Pod()
    pod.receive(0, messages.StoreOpened(3, 1234))
    pod.receive(0, messages.Formed(3, (1, 2), 7))
    pod.receive(0, messages.Finished())
    pod.receive(1, messages.CommandEnded())
    done = WorkDone(1, 2, 3.0)
    kept = CoordinatorState(wanted=2)
    report = pod.state.report(
        1,
        "10.0.0.1",
        port=80,
        epoch=2,
        record=Record(9, epoch=1),
        trained=(1, 8),
        done=done,
        kept=kept,
    )
    assert (report.index, report.incarnation) == (1, "life-1")
    assert (report.address, report.port, report.epoch) == ("10.0.0.1", 80, 2)
    assert (report.generation, report.members, report.step) == (3, (1, 2), 7)
    assert report.newest_generation == 9
    assert report.store == messages.StoreOpened(3, 1234)
    assert report.progress == Progress(finished=True)
    assert (report.done, report.kept) == (done, kept)
    assert pod.ranks[0].finished
    assert pod.ranks[1].ended


@given(older=PROGRESS, newer=PROGRESS)
def test_newer_progress_wins_where_it_reports(older: Progress, newer: Progress) -> None:
    result = merged(older, newer)
    for name in Progress.__dataclass_fields__:
        expected = getattr(newer, name)
        if expected is None:
            expected = getattr(older, name)
        assert getattr(result, name) == expected


@pytest.mark.parametrize("message", [messages.Pong(), messages.Arrived()])
def test_other_messages_leave_the_progress_alone(message: WorkerMessage) -> None:
    assert Pod().receive(0, message).progress == Progress()
