"""Waits for gloo look regularly whether the group was aborted, and an abort cuts only its own
connections."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from elastic_runtime.distributed import gloo
from elastic_runtime.distributed.gloo import PeerLost, Work, open_device, open_store
from elastic_runtime.distributed.group import Group
from tests.fakes.torch_work import AbandonedWork


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


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        pytest.param(RuntimeError("connection closed"), PeerLost, id="a lost peer"),
        pytest.param(torch.OutOfMemoryError("full"), torch.OutOfMemoryError, id="memory"),
        pytest.param(torch.AcceleratorError("CUDA error"), torch.AcceleratorError, id="own GPU"),
    ],
)
def test_only_an_error_that_another_group_may_cure_is_a_lost_peer(
    error: RuntimeError, raised: type[Exception]
) -> None:
    with pytest.raises(raised), gloo.reporting_lost_peers():
        raise error


@pytest.fixture
def script_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Connections that the script opens, and accepts, while gloo connects its ranks."""
    opened: list[socket.socket] = []
    make = gloo.make
    with ExitStack() as stack:

        def make_meanwhile(*arguments: Any) -> Any:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            opened.append(stack.enter_context(socket.create_connection(server.getsockname())))
            opened.append(stack.enter_context(server.accept()[0]))
            return make(*arguments)

        monkeypatch.setattr(gloo, "make", make_meanwhile)
        yield opened


def test_an_abort_shuts_down_the_groups_own_connections_and_no_others(
    script_connection: list[socket.socket],
) -> None:
    """Such as those to a database, which the script opens while its group forms.

    The ranks only receive: a call that just sends ends when its own rank aborts (see `gloo`).
    """
    groups = connect_ranks(3)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(group.receive, [torch.ones(1)], 0) for group in groups[1:]]
        groups[0].abort()
        for call in calls:
            with pytest.raises(PeerLost):
                call.result()
    assert len(script_connection) == 6
    for connection in script_connection:
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    for group in groups:
        group.close()


def connect_ranks(world: int) -> list[Group]:
    """The groups of all ranks, connected in this process."""
    store, port = open_store()
    groups = [Group(1, rank, world) for rank in range(world)]
    with ThreadPoolExecutor(world) as pool:
        list(pool.map(lambda group: group.connect(f"127.0.0.1:{port}"), groups))
    del store
    return groups


def test_a_machine_without_an_address_is_no_lost_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(**options: Any) -> None:
        raise RuntimeError("unable to resolve the hostname")

    backend = SimpleNamespace(create_default_device=create)
    monkeypatch.setattr(gloo, "ProcessGroupGloo", backend)
    with pytest.raises(OSError, match="gloo cannot listen: unable to resolve the hostname"):
        open_device()


def test_gloo_listens_at_the_interface_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine whose name has the address of another one."""

    def create(**options: Any) -> None:
        raise AssertionError("at another interface")

    monkeypatch.setattr(gloo.ProcessGroupGloo, "create_default_device", create)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,eth0")
    _, (host, _) = open_device()
    assert host in ("127.0.0.1", "::1")


def test_an_interface_that_does_not_exist_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none0")
    with pytest.raises(OSError, match="gloo cannot listen: "):
        open_device()


def test_a_listener_that_the_script_opens_at_the_same_moment_is_not_taken_for_gloos(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ExitStack() as stack:
        create = gloo.ProcessGroupGloo.create_default_device

        def create_with_the_script(**options: Any) -> Any:
            if not scripts:
                scripts.append(stack.enter_context(socket.create_server(("127.0.0.1", 0))))
            return create(**options)

        scripts: list[socket.socket] = []
        backend = SimpleNamespace(create_default_device=create_with_the_script)
        monkeypatch.setattr(gloo, "ProcessGroupGloo", backend)
        _, address = open_device()
        assert address != scripts[0].getsockname()
