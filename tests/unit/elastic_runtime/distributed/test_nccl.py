"""What NCCL needs, as far as it can be tested without a GPU: torch's side is a recorder here."""

import threading

import pytest
import torch

from elastic_runtime.distributed import nccl
from elastic_runtime.distributed.group import Group


class TorchWork:
    """Completes at the third poll; with `never` it does not, as when a peer is lost."""

    def __init__(self, *, never: bool = False) -> None:
        self.never = never
        self.polls = 0
        self.waits = 0

    def is_completed(self) -> bool:
        self.polls += 1
        return self.polls > 2 and not self.never

    def wait(self) -> None:
        self.waits += 1


def test_a_torch_without_nccl_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    with pytest.raises(
        ValueError, match="has no NCCL: use a build that has it, or train on the CPU"
    ):
        nccl.check_devices(["GPU-0", "GPU-1"])


def test_a_sum_is_waited_for_on_the_host_and_then_on_the_stream() -> None:
    work = TorchWork()
    nccl.Work(Group(1, 0, 2), work).wait()
    assert work.polls == 3
    assert work.waits == 1


def test_an_abort_frees_a_call_that_waits_for_a_sum() -> None:
    group = Group(1, 0, 2)
    work = TorchWork(never=True)
    threading.Timer(0.05, group.abort).start()
    with pytest.raises(RuntimeError, match="was aborted"):
        nccl.Work(group, work).wait()
    assert work.waits == 0


def test_after_an_abort_a_sum_that_looks_completed_is_not_even_queried() -> None:
    group = Group(1, 0, 2)
    work = TorchWork()
    work.polls = 2
    group.abort()
    for call in (nccl.Work(group, work).wait, nccl.Work(group, work).block_current_stream):
        with pytest.raises(RuntimeError, match="was aborted"):
            call()
    assert work.polls == 2
    assert work.waits == 0


def test_block_current_stream_orders_the_stream_and_does_not_wait_on_the_host() -> None:
    work = TorchWork(never=True)
    nccl.Work(Group(1, 0, 2), work).block_current_stream()
    assert work.polls == 0
    assert work.waits == 1


def test_collectives_of_a_single_rank_copy_input_to_output() -> None:
    group = nccl.SingleRankGroup()
    source = torch.tensor([1.0, 2.0])
    outputs = [torch.zeros(2) for _ in range(4)]
    group._allgather_base(outputs[0], source).wait()
    group._reduce_scatter_base(outputs[1], source).wait()
    group.alltoall_base(outputs[2], source, [], []).wait()
    group.allgather([[outputs[3]]], [source]).wait()
    assert all(torch.equal(output, source) for output in outputs)
    assert group.allreduce([source]).is_completed()
    assert source.tolist() == [1.0, 2.0]
