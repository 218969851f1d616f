"""Waits for gloo look regularly whether the group was aborted."""

import os
import socket
import time

import pytest

from elastic_runtime.distributed.gloo import OpenedSockets, Work, connected_sockets, open_store
from elastic_runtime.distributed.group import Group
from tests.fakes.torch_work import AbandonedWork

ACCEPT_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.01


def test_a_call_that_gloo_never_ends_is_freed_at_the_poll_after_an_abort() -> None:
    group = Group(1, 0, 2)
    abandoned = AbandonedWork(group)
    with pytest.raises(RuntimeError):
        Work(group, abandoned).wait()
    assert abandoned.polls == 3


def test_a_call_that_takes_long_is_waited_for() -> None:
    group = Group(1, 0, 2)
    slow = AbandonedWork(group, completes_late=True)
    Work(group, slow).wait()
    assert slow.polls == 3


def test_only_sockets_that_the_group_opened_are_shut_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        earlier = socket.create_connection(server.getsockname())
        opened = OpenedSockets()
        later = socket.create_connection(server.getsockname())
        opened.remember()
        opened.shut_down()
        # The end of the stream.
        assert later.recv(1) == b""
        earlier.settimeout(0.05)
        with pytest.raises(TimeoutError):
            earlier.recv(1)
        earlier.close()
        later.close()


def test_connections_of_the_own_store_are_left_alone() -> None:
    """They belong to the peers of a later generation."""
    store, port = open_store()
    with socket.create_connection(("127.0.0.1", port)) as client:
        end = time.monotonic() + ACCEPT_TIMEOUT_S
        while not _accepted_at(port):
            assert time.monotonic() < end, "the store does not accept the connection"
            time.sleep(POLL_INTERVAL_S)
        connected = connected_sockets().keys()
        assert client.fileno() in connected
        assert not _accepted_at(port) & connected
    del store


def _accepted_at(port: int) -> set[int]:
    """Descriptors of this process's connections that a listening socket at `port` accepted."""
    accepted = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as duplicate:
                duplicate.getpeername()
                if duplicate.getsockname()[1] == port:
                    accepted.add(int(name))
        except OSError:
            # Closed meanwhile, no socket, or not connected.
            continue
    return accepted
