"""An abort frees every blocked call of a group, also those that gloo never ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch

from elastic_runtime.distributed.gloo import Work, open_store
from elastic_runtime.distributed.group import Group, all_gather_object
from elastic_runtime.distributed.process_groups import ProcessGroups
from tests.fakes.torch_work import AbandonedWork, SlowToDrop, run_to_its_end
from tests.paths import TREE

# Connects, and then stops.
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
def test_an_abort_frees_a_call_that_waits_for_a_stopped_peer(
    call: Callable[[Group], None],
) -> None:
    store, port = open_store()
    address = f"127.0.0.1:{port}"
    peer = subprocess.Popen([sys.executable, "-c", PEER, address], cwd=TREE)
    try:
        group = Group(1, 0, 2)
        group.connect(address)
        os.waitid(os.P_PID, peer.pid, os.WSTOPPED | os.WNOWAIT)
        threading.Timer(0.3, group.abort).start()
        errors: list[Exception] = []

        def run_call() -> None:
            try:
                call(group)
            except RuntimeError as error:
                errors.append(error)

        caller = threading.Thread(target=run_call, daemon=True)
        caller.start()
        caller.join(30)
        assert errors
    finally:
        os.kill(peer.pid, signal.SIGKILL)
        peer.wait()
    group.close()
    del store


def test_a_transfer_that_gloo_never_ends_is_not_waited_for_after_an_abort() -> None:
    group = Group(1, 0, 2)
    threading.Timer(0.05, group.abort).start()
    with pytest.raises(RuntimeError, match="generation 1 was aborted"):
        group.wait_all([AbandonedWork(group)])


class TorchGroup(SlowToDrop):
    """Stands for torch's group: its destructor waits for threads that may be stuck."""

    def abort(self) -> None:
        """Frees nothing, as gloo's."""


def test_a_rank_that_leaves_a_group_never_waits_for_its_stuck_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though the thread that drops the group may end first."""
    dropped_on: list[str] = []
    group = Group(1, 0, 2)
    torch_group = TorchGroup(dropped_on)
    group._gloo = group._nccl = ProcessGroups(Work, torch_group, torch_group, torch_group)
    del torch_group
    monkeypatch.setattr(threading.Thread, "start", run_to_its_end)
    group.close()
    assert dropped_on == ["close-group"]


def test_a_rank_alone_learns_of_an_abort_at_its_next_collective() -> None:
    """It has no connection that would end. Without this it trains on while other ranks wait."""
    group = Group(1, 0, 1).connect_alone()
    group.all_reduce(torch.ones(1)).wait()
    group.abort()
    with pytest.raises(RuntimeError, match="the group was aborted"):
        group.all_reduce(torch.ones(1))
    with pytest.raises(RuntimeError, match="the group was aborted"):
        group.all_gather(torch.ones(1))


def test_a_job_of_one_gathers_its_own_values() -> None:
    value = {"a": [1, "x"]}
    assert all_gather_object(None, value) == [value]
    assert all_gather_object(Group(1, 0, 1).connect_alone(), value) == [value]
