"""A rank's end of the socket to its agent; here the test is the agent."""

import multiprocessing
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from elastic_runtime import messages
from elastic_runtime.agent.settings import AGENT_FD_ENV, AGENT_PID_ENV, LOCAL_HOST_ENV
from elastic_runtime.distributed.gloo import TCPStore, listening_at
from elastic_runtime.distributed.group import Group
from elastic_runtime.messages import Record, decode_worker_message, encode_line
from elastic_runtime.mistake import Mistake
from elastic_runtime.training import agent_link
from elastic_runtime.training.agent_link import AgentLink
from tests.builders.sessions import small_session


class RecordingGroup:
    def __init__(self, generation: int, is_connected: bool = True) -> None:
        self.generation = generation
        self.is_connected = is_connected
        self.aborted = threading.Event()

    def abort(self) -> None:
        self.aborted.set()


@dataclass
class Agent:
    """The other end. The link, of rank 0 of pod 1, learns its index with the first record."""

    end: socket.socket
    link: AgentLink

    def __post_init__(self) -> None:
        self._lines = self.end.makefile("rb")

    def close(self) -> None:
        self._lines.close()
        self.end.close()
        self.link._socket.close()

    def send(self, message: messages.AgentMessage) -> None:
        self.end.sendall(encode_line(message))

    def send_record(self, record: Record) -> None:
        self.send(messages.NewRecord(record, index=1))

    def receive(self) -> messages.WorkerMessage:
        return decode_worker_message(self._lines.readline())


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    agent_end, rank_end = socket.socketpair()
    exit_codes: list[int] = []
    # When the agent is gone, the rank's process ends.
    monkeypatch.setattr("os._exit", exit_codes.append)
    before = set(threading.enumerate())
    agent = Agent(agent_end, AgentLink(rank_end.detach(), local_rank=0, ranks_per_pod=2))
    yield agent
    # Only this direction: the link may still be sending.
    agent_end.shutdown(socket.SHUT_WR)
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    agent.close()
    assert exit_codes == [1]


def wait_in_thread(link: AgentLink, generation: int) -> Callable[[], Record]:
    records: list[Record] = []
    thread = threading.Thread(target=lambda: records.append(link.wait_for_newer(generation)))
    thread.start()

    def result() -> Record:
        thread.join(20)
        return records[0]

    return result


def record(generation: int, *members: int, **more: Any) -> Record:
    return Record(generation, members, tuple(f"i{member}" for member in members), **more)


def test_a_report_for_the_status_has_no_values_of_the_environment(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_LOGIN", "s3://me:pa55word@store/bucket")
    agent.link.send(messages.Progress(step=3, save_message="saving step 3 failed: pa55word"))
    expected = messages.Progress(step=3, save_message="saving step 3 failed: $STORE_LOGIN")
    assert agent.receive() == expected


def test_a_script_without_an_agent_has_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AGENT_FD_ENV, raising=False)
    assert agent_link.connect() is None


@pytest.mark.parametrize(
    ("is_child", "is_import", "warning"),
    [
        pytest.param(False, False, "", id="the script itself"),
        pytest.param(
            True, False, r"job of its own, .*: to .*, remove mp.spawn and start", id="mp.spawn"
        ),
        pytest.param(True, True, "runs the script again: call", id="import of the script"),
    ],
)
def test_a_session_without_an_agent_warns_in_a_process_that_the_script_has_started(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_child: bool,
    is_import: bool,
    warning: str,
) -> None:
    process = multiprocessing.current_process()
    monkeypatch.setattr(process, "_inheriting", is_import, raising=False)
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: process if is_child else None)
    small_session()
    warnings = [line.getMessage() for line in caplog.records if line.levelname == "WARNING"]
    assert len(warnings) == is_child
    assert all(re.search(warning, text) for text in warnings)


@pytest.mark.parametrize(
    ("is_import", "complaint"),
    [
        pytest.param(
            True, "runs the script again: call multiprocessing", id="import of the script"
        ),
        pytest.param(False, "creates a session, but only a process that", id="trains there"),
    ],
)
def test_a_session_in_a_process_that_the_script_has_started_is_refused(
    monkeypatch: pytest.MonkeyPatch, is_import: bool, complaint: str
) -> None:
    """It inherits the environment, and the descriptor may be that of anything."""
    agent, worker = socket.socketpair()
    with agent, worker:
        monkeypatch.setenv(AGENT_FD_ENV, str(worker.fileno()))
        monkeypatch.setenv(AGENT_PID_ENV, str(os.getpid()))
        process = multiprocessing.current_process()
        monkeypatch.setattr(process, "_inheriting", is_import, raising=False)
        with pytest.raises(Mistake, match=complaint):
            agent_link.connect()


@pytest.mark.parametrize(
    ("environment", "workers"),
    [
        pytest.param({"CEDE_SIZES": "1,2,4"}, 8, id="two in each pod of the largest size"),
        pytest.param({}, 2, id="a job of one size"),
        pytest.param({"CEDE_SIZES": "1,8", "CEDE_LOCAL": "127.0.0.1"}, 1, id="a local job"),
    ],
)
def test_a_job_may_have_the_workers_of_its_largest_size(
    environment: dict[str, str], workers: int
) -> None:
    assert agent_link.most_workers(environment, ranks_per_pod=2) == workers


def test_a_link_answers_pings_and_counts_requested_saves(agent: Agent) -> None:
    agent.send(messages.SaveRequested())
    agent.send(messages.SaveRequested())
    agent.send(messages.Ping())
    assert agent.receive() == messages.Pong()
    assert agent.link.save_requests == 2


def test_a_member_waits_until_the_store_is_open(agent: Agent) -> None:
    result = wait_in_thread(agent.link, 1)
    agent.send_record(record(1, 0, 1, store="host:1"))
    agent.send_record(record(2, 0, 1))
    complete = record(2, 0, 1, store="host:2")
    agent.send_record(complete)
    assert result() == complete


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param(record(2, 0, 2), id="it is no member"),
        pytest.param(record(2, 0, 1, stop=True), id="the job stops"),
    ],
)
def test_a_rank_that_does_not_train_needs_no_store(agent: Agent, newest: Record) -> None:
    result = wait_in_thread(agent.link, 1)
    agent.send_record(newest)
    assert result() == newest


def test_the_first_rank_of_a_generation_opens_its_store_once(agent: Agent) -> None:
    agent.send_record(record(3, 1, 2))
    opened = agent.receive()
    assert isinstance(opened, messages.StoreOpened)
    assert opened.generation == 3
    assert opened.port > 0
    agent.send_record(record(3, 1, 2))
    agent.send(messages.Ping())
    assert agent.receive() == messages.Pong()


def test_the_store_of_a_local_job_is_reached_from_its_own_machine_only(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOCAL_HOST_ENV, "127.0.0.1")
    before = listening_at()
    agent.send_record(record(3, 1, 2))
    opened = agent.receive()
    assert isinstance(opened, messages.StoreOpened)
    assert listening_at() - before == {("127.0.0.1", opened.port)}
    TCPStore("127.0.0.1", opened.port, None).set("a rank", "has met the others")


@pytest.mark.parametrize("members", [(0, 1), (0, 2)])
def test_other_ranks_open_no_store(agent: Agent, members: tuple[int, ...]) -> None:
    agent.send_record(record(3, *members))
    agent.send(messages.Ping())
    assert agent.receive() == messages.Pong()


def test_a_group_is_aborted_when_a_member_is_lost(agent: Agent) -> None:
    group = RecordingGroup(generation=2)
    agent.link.abort_on_loss(cast(Group, group))
    agent.send_record(record(3, 0, 1, store="host:1"))
    agent.send(messages.Ping())
    agent.receive()
    assert not group.aborted.is_set(), "a planned change waits for the end of the step"
    agent.send_record(record(4, 1, abrupt=True))
    assert group.aborted.wait(20)


def test_a_group_that_still_connects_is_aborted_by_any_newer_generation(agent: Agent) -> None:
    """Some member never comes, though none was reported lost: pod 0 may have been replaced."""
    group = RecordingGroup(generation=2, is_connected=False)
    agent.link.abort_on_loss(cast(Group, group))
    agent.send_record(record(2, 0, 1, store="host:1"))
    agent.send(messages.Ping())
    agent.receive()
    assert not group.aborted.is_set(), "its own generation"
    agent.send_record(record(3, 0, 1))
    assert group.aborted.wait(20)


def test_a_group_is_aborted_at_once_if_a_member_was_lost_before(agent: Agent) -> None:
    agent.send_record(record(4, 0, 1, abrupt=True, store="host:1"))
    assert agent.link.wait_for_newer(0).abrupt
    lost, current = RecordingGroup(generation=3), RecordingGroup(generation=4)
    agent.link.abort_on_loss(cast(Group, current))
    assert not current.aborted.is_set()
    agent.link.abort_on_loss(cast(Group, lost))
    assert lost.aborted.is_set()


def test_an_error_in_what_the_agent_sends_ends_the_process_with_its_cause(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[BaseException] = []
    is_shown = threading.Event()

    def show(kind: type[BaseException], error: BaseException, trace: object) -> None:
        errors.append(error)
        is_shown.set()

    monkeypatch.setattr("sys.excepthook", show)
    agent.end.sendall(b"no message\n")
    assert is_shown.wait(10)
    assert isinstance(errors[0], ValueError)
