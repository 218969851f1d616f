"""Whoever reaches the control port without the key takes nobody's place in the job."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from elastic_runtime.agent import control_server
from tests.harness import local_job
from tests.harness.local_job import Job, check_exactly_once

pytestmark = pytest.mark.processes
SCRIPT = local_job.SCRIPT
# More than the port keeps.
COUNT = control_server.MAX_UNSIGNED_OF_ADDRESS + 50


@contextmanager
def idle_connections(port: int) -> Iterator[threading.Event]:
    """`COUNT` that send nothing; one that the port closes is opened again. The event is set when
    all are open."""
    ended = threading.Event()
    is_full = threading.Event()

    def keep_open() -> None:
        connections = list[socket.socket]()
        while not ended.wait(0.1):
            connections = [connection for connection in connections if not is_closed(connection)]
            while len(connections) < COUNT:
                connections.append(socket.create_connection(("127.0.0.1", port), timeout=30))
            is_full.set()
        for connection in connections:
            connection.close()

    thread = threading.Thread(target=keep_open)
    thread.start()
    try:
        yield is_full
    finally:
        ended.set()
        thread.join()


def is_closed(connection: socket.socket) -> bool:
    """By its other end; then it is closed here too."""
    readable, _, _ = select.select([connection], [], [], 0)
    if readable:
        connection.close()
    return bool(readable)


def test_a_job_trains_and_is_resized_while_strangers_fill_its_port(
    job: Job, undisturbed: Callable[[int], list[float]]
) -> None:
    job.start(0, 1)
    before = job.trains(2)
    with idle_connections(job.port) as is_full:
        assert is_full.wait(60)
        # Longer than a silent pod stays a member.
        after = job.trains(2, beyond=30)
        assert after.generation == before.generation
        job.resize(1)
        job.until(lambda s: s.ceded(1) and s.parked == (1,))
    job.stop()
    check_exactly_once(job, undisturbed)
