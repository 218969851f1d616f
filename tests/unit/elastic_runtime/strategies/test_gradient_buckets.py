"""Gradients in buckets: the optimizer reads the sum over all ranks."""

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from elastic_runtime.distributed.gloo import PeerLost
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies.gradient_buckets import GradientBuckets
from tests.fakes.torch_work import SlowToDrop, run_to_its_end

# (samples, channels, height, width)
INPUT = torch.linspace(-1, 1, 72).view(1, 2, 6, 6)
Script = Callable[[torch.nn.Module], None]


class Peer:
    """A group of two ranks whose gradients are equal.

    `lost`: the other rank is lost. `cannot_start`: no collective even starts. `may_write`:
    collectives that failed may still write to their tensors. `dropped_on`: on which threads the
    collectives were dropped.
    """

    def __init__(self) -> None:
        self.dropped_on: list[str] = []
        self.lost = False
        self.cannot_start = False
        self.may_write = True
        self.reduced: list[torch.Tensor] = []

    def all_reduce(self, tensor: torch.Tensor) -> Any:
        self.reduced.append(tensor)
        if self.cannot_start:
            raise PeerLost("a peer is lost")
        if not self.lost:
            tensor.mul_(2)
        return Collective(self)

    def take_reduced(self) -> list[torch.Tensor]:
        tensors = self.reduced
        self.reduced = []
        return tensors


class Collective(SlowToDrop):
    """Of a peer. It keeps the connections of its group."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.dropped_on)
        self.peer = peer

    @property
    def may_write(self) -> bool:
        return self.peer.may_write

    def wait(self) -> None:
        if self.peer.lost:
            raise PeerLost("a peer is lost")


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.Flatten(), torch.nn.Linear(48, 2)
    ).to(memory_format=torch.channels_last)


def do_nothing(model: torch.nn.Module) -> None: ...


def run_step(
    model: torch.nn.Module,
    buckets: GradientBuckets,
    peer: Peer,
    before_first_pass: Script = do_nothing,
    after_last_pass: Script = do_nothing,
) -> bool:
    """A step of two micro-batches, with what the script does around them."""
    buckets.begin_step(cast(Group, peer))
    before_first_pass(model)
    for is_last in (False, True):
        buckets.in_last_pass = is_last
        model(INPUT).square().sum().backward()
    after_last_pass(model)
    return buckets.reduce(torch.tensor([3.0]))


def test_the_sums_are_multiplied_by_a_factor() -> None:
    model = make_model()
    buckets = GradientBuckets(model, sum_count=2)
    buckets.begin_step(None)
    buckets.in_last_pass = True
    (model(INPUT).square().sum() / 2).backward()
    assert buckets.reduce(torch.tensor([3.0, 5.0]))
    assert buckets.summed().tolist() == [3.0, 5.0]
    buckets.write_gradients(8.0)
    check_gradients(model)


def check_gradients(model: torch.nn.Module) -> None:
    """They are the sum of two micro-batches on each of two ranks."""
    expected_model = make_model()
    (4 * expected_model(INPUT).square().sum()).backward()
    for p, expected in zip(model.parameters(), expected_model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, expected.grad)


# --- what the script does to gradients ------------------------------------------------------------


def replace_gradients(model: torch.nn.Module) -> None:
    for p in model.parameters():
        p.grad = cast(torch.Tensor, p.grad).clone()


SCRIPTS: dict[str, Script] = {
    "nothing": do_nothing,
    "zero_grad before the first pass": lambda model: model.zero_grad(),
    "zero_grad(set_to_none=False)": lambda model: model.zero_grad(set_to_none=False),
    "other tensors in their place": replace_gradients,
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_optimizer_reads_the_sum_whatever_the_script_does(script: str) -> None:
    model = make_model()
    buckets = GradientBuckets(model)
    peer = Peer()
    # Nothing of a step is left in the next one.
    for _ in range(2):
        assert run_step(model, buckets, peer, before_first_pass=SCRIPTS[script])
        assert buckets.summed() == 6.0
        buckets.write_gradients()
        check_gradients(model)


def test_the_script_cannot_change_what_is_being_reduced() -> None:
    # Each layer has a bucket.
    model = torch.nn.Sequential(
        torch.nn.Linear(1400, 1500, bias=False),
        torch.nn.Linear(1500, 1400, bias=False),
        torch.nn.Linear(1400, 1500, bias=False),
    )
    buckets = GradientBuckets(model)
    peer = Peer()
    buckets.begin_step(cast(Group, peer))
    buckets.in_last_pass = True
    model(torch.ones(1, 1400)).sum().backward()
    assert peer.reduced, "some buckets are launched"
    before = [tensor.clone() for tensor in peer.reduced]
    model.zero_grad(set_to_none=False)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert all(torch.equal(now, old) for now, old in zip(peer.reduced, before, strict=True))


def test_before_a_collective_of_the_script_every_rank_has_launched_as_much() -> None:
    """Also one whose passes have reached no gradient."""
    layers = [torch.nn.Linear(1400, 1500, bias=False), torch.nn.Linear(1500, 1400, bias=False)]
    buckets = GradientBuckets(torch.nn.Sequential(*layers))
    peer = Peer()
    buckets.begin_step(cast(Group, peer))
    for _ in range(2):
        buckets.launch_all_but_last()
        assert len(peer.reduced) == 1
    assert buckets.reduce(torch.ones(1))
    assert len(peer.reduced) == 2


def test_gradients_keep_the_layout_that_a_backward_pass_gives_them() -> None:
    model = make_model()
    GradientBuckets(model).begin_step(None)
    for p in model.parameters():
        assert cast(torch.Tensor, p.grad).stride() == torch.zeros_like(p).stride()


def test_numbers_have_their_own_bucket_if_the_gradients_type_is_too_narrow() -> None:
    model = torch.nn.Linear(2, 2).bfloat16()
    buckets = GradientBuckets(model)
    peer = Peer()
    buckets.begin_step(cast(Group, peer))
    buckets.in_last_pass = True
    model(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    assert buckets.reduce(torch.tensor([3.0]))
    assert [(tensor.dtype, tensor.numel()) for tensor in peer.reduced] == [
        (torch.bfloat16, 6),
        (torch.float32, 1),
    ]
    assert buckets.summed() == 6.0


# --- failed steps ---------------------------------------------------------------------------------


def test_memory_that_a_failed_step_may_still_write_to_is_replaced() -> None:
    model = make_model()
    buckets = GradientBuckets(model)
    peer = Peer()
    peer.lost = True
    assert not run_step(model, buckets, peer)
    assert buckets.broken
    old_memory = peer.take_reduced()
    peer.lost = False
    assert run_step(model, buckets, peer)
    for tensor in old_memory:
        # The result of the failed collective arrives.
        tensor.fill_(float("nan"))
    assert buckets.summed() == 6.0
    buckets.write_gradients()
    check_gradients(model)


def test_memory_that_a_failed_step_cannot_write_to_is_kept() -> None:
    """To allocate the memory of all gradients costs about a second for each GB."""
    model = make_model()
    buckets = GradientBuckets(model)
    peer = Peer()
    peer.lost = True
    peer.may_write = False
    assert not run_step(model, buckets, peer)
    before = peer.take_reduced()
    peer.lost = False
    assert run_step(model, buckets, peer)
    assert [t.data_ptr() for t in peer.reduced] == [t.data_ptr() for t in before]


def test_a_step_that_succeeded_keeps_no_collective_of_a_group_that_may_be_closed_next() -> None:
    peer = Peer()
    model = make_model()
    buckets = GradientBuckets(model)
    assert run_step(model, buckets, peer)
    assert peer.dropped_on == ["MainThread"]


def test_collectives_that_failed_are_dropped_where_nobody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading.Thread, "start", run_to_its_end)
    peer = Peer()
    peer.lost = True
    model = make_model()
    buckets = GradientBuckets(model)
    assert not run_step(model, buckets, peer)
    assert peer.dropped_on == []
    buckets.begin_step(None)
    assert peer.dropped_on == ["drop-group"]


def test_memory_of_a_collective_that_failed_to_start_is_replaced() -> None:
    """NCCL may have queued it all the same."""
    model = make_model()
    buckets = GradientBuckets(model)
    peer = Peer()
    peer.cannot_start = True
    assert not run_step(model, buckets, peer)
    before = peer.take_reduced()
    peer.cannot_start = False
    assert run_step(model, buckets, peer)
    assert before
    assert not {t.data_ptr() for t in before} & {t.data_ptr() for t in peer.reduced}
