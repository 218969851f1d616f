"""A rank's messages to an agent that reads late, or never."""

import socket
import threading
from collections.abc import Iterator

import pytest

from elastic_runtime import messages
from elastic_runtime.messages import Progress, StepCommitted, WorkerMessage, decode_worker_message
from elastic_runtime.training import outbox
from elastic_runtime.training.outbox import Outbox

# More than the socket holds.
MANY = 20_000


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Outbox]]:
    """The agent's end, and the rank's outbox."""
    agent, rank = socket.socketpair()
    agent.settimeout(20)
    with agent, rank:
        yield agent, Outbox(rank)


def read(agent: socket.socket, last: WorkerMessage) -> list[WorkerMessage]:
    """All messages up to the `last`."""
    received = list[WorkerMessage]()
    with agent.makefile("rb") as lines:
        for line in lines:
            received.append(decode_worker_message(line))
            if received[-1] == last:
                return received
    raise AssertionError(f"{last} has not arrived")


def step(number: int) -> StepCommitted:
    return StepCommitted(number, 0.5, 0.01)


def test_an_agent_that_reads_nothing_does_not_keep_a_rank_waiting(
    ends: tuple[socket.socket, Outbox],
) -> None:
    agent, box = ends
    box.send(Progress(durable_step=7))
    for number in range(MANY):
        box.send(step(number))
    box.send(messages.Pong())
    # When the agent reads again it receives all but steps that newer ones repeat, in order.
    box.send(Progress(message="last"))
    received = read(agent, Progress(message="last"))
    assert (received[0], received[-2]) == (Progress(durable_step=7), messages.Pong())
    steps = [message.step for message in received if isinstance(message, StepCommitted)]
    assert steps == sorted(steps)
    assert steps[-1] == MANY - 1
    assert outbox.MAX_WAITING < len(steps) < MANY


def test_the_end_of_a_script_is_sent_before_its_process_ends(
    ends: tuple[socket.socket, Outbox],
) -> None:
    agent, box = ends
    for number in range(MANY):
        box.send(step(number))
    ending = threading.Thread(target=lambda: box.send(messages.Finished()), daemon=True)
    ending.start()
    assert ending.is_alive()
    read(agent, messages.Finished())
    ending.join(20)
    assert not ending.is_alive()


def test_an_agent_that_has_ended_is_an_error(ends: tuple[socket.socket, Outbox]) -> None:
    agent, box = ends
    agent.close()
    with pytest.raises(OSError, match="Broken pipe"):
        box.send(messages.Pong())
