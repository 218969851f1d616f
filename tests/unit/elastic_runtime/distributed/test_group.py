"""A group that was cut lets everybody go, also those whom gloo forgets."""

import datetime
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch

from elastic_runtime.distributed.gloo import Work, open_store
from elastic_runtime.distributed.group import Group
from tests.paths import TREE

PEER = """
import os, signal, sys
from elastic_runtime.distributed.group import Group
group = Group(1, 1, 2)
group.connect(sys.argv[1])
os.kill(os.getpid(), signal.SIGSTOP)
"""
# (elements,): 64 MiB, far more than fits into a socket
BIG = torch.zeros(1 << 24)


@pytest.mark.processes
@pytest.mark.parametrize(
    "call",
    [
        lambda group: group.all_reduce(BIG).wait(),
        lambda group: group.send([BIG], 1),
        lambda group: group.receive([BIG], 1),
    ],
    ids=["a sum", "a send", "a receive"],
)
def test_whoever_waits_for_a_peer_that_stands_still_is_free_once_the_group_is_cut(
    call: Callable[[Group], None],
) -> None:
    store, port = open_store()
    here = f"127.0.0.1:{port}"
    peer = subprocess.Popen([sys.executable, "-c", PEER, here], cwd=TREE)
    try:
        group = Group(1, 0, 2)
        group.connect(here)
        os.waitid(os.P_PID, peer.pid, os.WSTOPPED | os.WNOWAIT)
        cut = threading.Timer(0.3, group.abort)
        cut.start()
        freed: list[Exception] = []

        def wait() -> None:
            try:
                call(group)
            except RuntimeError as error:
                freed.append(error)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        waiting.join(30)
        assert freed
    finally:
        os.kill(peer.pid, signal.SIGKILL)
        peer.wait()
    group.close()
    del store


class Forgotten:
    """What gloo never ends: it was just being sent when the connection closed. Done at the third
    look if `done_late`."""

    def __init__(self, group: Group, *, done_late: bool = False) -> None:
        self.group = group
        self.done_late = done_late
        self.looks = 0

    def is_completed(self) -> bool:
        return self.done_late and self.looks >= 2

    def wait(self, timeout: datetime.timedelta | None = None) -> None:
        if timeout is None:
            threading.Event().wait()
        self.looks += 1
        if self.looks == 2 and not self.done_late:
            self.group.abort()
        if self.looks < 3 or not self.done_late:
            raise RuntimeError("Operation timed out!")


def test_a_call_that_gloo_forgot_ends_at_the_next_look_after_the_cut() -> None:
    group = Group(1, 0, 2)
    forgotten = Forgotten(group)
    with pytest.raises(RuntimeError):
        Work(group, forgotten).wait()
    assert forgotten.looks == 3


def test_a_call_that_takes_long_is_waited_for() -> None:
    group = Group(1, 0, 2)
    slow = Forgotten(group, done_late=True)
    Work(group, slow).wait()
    assert slow.looks == 3


def test_state_that_gloo_forgot_to_send_is_not_waited_for_after_the_cut() -> None:
    group = Group(1, 0, 2)
    threading.Timer(0.05, group.abort).start()
    with pytest.raises(RuntimeError, match="generation 1 was aborted"):
        group.wait_all([Forgotten(group)])


def test_a_rank_alone_learns_at_its_next_collective_that_its_group_was_cut() -> None:
    """It has no connection that would tell it: it trained on while those it was to meet waited."""
    group = Group(1, 0, 1).connect_alone()
    group.all_reduce(torch.ones(1)).wait()
    group.abort()
    with pytest.raises(RuntimeError, match="the group was aborted"):
        group.all_reduce(torch.ones(1))
    with pytest.raises(RuntimeError, match="the group was aborted"):
        group.all_gather(torch.ones(1))
