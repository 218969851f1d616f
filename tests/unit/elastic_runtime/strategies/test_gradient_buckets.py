"""Gradients in buckets: what the optimizer reads is the sum over all ranks, whatever the script did
to `grad`."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.distributed.group import Group
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.gradient_buckets import GradientBuckets
from elastic_runtime.strategies.replicated import Replicated


class Sum:
    """In the place of a group of two whose ranks have equal gradients.

    `lost`: the peer is; `fails`: no sum can even begin; `may_write`: sums that broke are not over.
    """

    def __init__(self) -> None:
        self.lost = False
        self.fails = False
        self.may_write = True
        self.written: list[torch.Tensor] = []

    def all_reduce(self, tensor: torch.Tensor) -> Any:
        self.written.append(tensor)
        if self.fails:
            raise RuntimeError("the peer is gone")
        if not self.lost:
            tensor.mul_(2)
        return self

    def wait(self) -> None:
        if self.lost:
            raise RuntimeError("the peer is gone")


def model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.Flatten(), torch.nn.Linear(48, 2)
    ).to(memory_format=torch.channels_last)


# (samples, channels, height, width)
INPUT = torch.linspace(-1, 1, 72).view(1, 2, 6, 6)


def a_step(
    of: torch.nn.Module,
    buckets: GradientBuckets,
    group: Sum,
    before: Callable[[], None],
    after: Callable[[], None],
) -> bool:
    """Of two micro-batches; the script does `before` the first and `after` the last what it
    likes."""
    buckets.begin_step(cast(Group, group))
    before()
    for last in (False, True):
        buckets.in_last_pass = last
        of(INPUT).square().sum().backward()
    after()
    return buckets.reduce(torch.tensor([3.0]))


def expected(of: torch.nn.Module) -> list[torch.Tensor]:
    """Two micro-batches on each of two ranks."""
    of.zero_grad()
    (4 * of(INPUT).square().sum()).backward()
    return [cast(torch.Tensor, p.grad).clone() for p in of.parameters()]


def nothing() -> None:
    pass


def other_gradients(of: torch.nn.Module) -> None:
    for p in of.parameters():
        p.grad = cast(torch.Tensor, p.grad).clone()


SCRIPTS: dict[str, tuple[Callable[[torch.nn.Module], Any], Callable[[torch.nn.Module], Any]]] = {
    "as it is asked to": (lambda of: None, lambda of: None),
    "zero_grad before the first pass": (lambda of: of.zero_grad(), lambda of: None),
    "zero_grad that keeps them": (lambda of: of.zero_grad(set_to_none=False), lambda of: None),
    "others in their place": (other_gradients, lambda of: None),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_optimizer_reads_the_sum_of_all_ranks_whatever_the_script_does_to_grad(
    script: str,
) -> None:
    of = model()
    alike = model()
    buckets = GradientBuckets(of)
    group = Sum()
    before, after = SCRIPTS[script]
    # nothing of a step is left in the next
    for _ in range(2):
        assert a_step(of, buckets, group, lambda: before(of), lambda: after(of))
        assert buckets.write_gradients() == 6.0
        for p, right in zip(of.parameters(), expected(alike), strict=True):
            torch.testing.assert_close(p.grad, right)


def whole(of: torch.nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(of, mesh=mesh)


STRATEGIES: dict[str, Callable[[], Any]] = {
    "replicated": Replicated,
    "tree": Deterministic,
    "sharded": lambda: Sharded(whole),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("where", ["before each pass", "after each pass", "after the last"])
def test_gradients_that_the_script_drops_are_missed(strategy: str, where: str) -> None:
    of = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(of.parameters())
    session = Session(of, optimizer, samples=9, micro_batches=2, strategy=STRATEGIES[strategy]())
    steps = session.steps(2)

    def step() -> None:
        for _ in (now := next(steps)):
            if where == "before each pass":
                optimizer.zero_grad()
            now.backward(of(torch.ones(1, 2)).square().mean())
            if where == "after each pass":
                optimizer.zero_grad()
        if where == "after the last":
            optimizer.zero_grad()
        next(steps)

    try:
        # it has taken them when the pass ended
        if strategy == "tree" and where != "after each pass":
            step()
        else:
            with pytest.raises(ValueError, match="call step.backward without zero_grad"):
                step()
    finally:
        fsdp2_internals.drop_mesh()


def test_a_parameter_that_no_loss_reaches_is_not_missed_where_zero_grad_comes_before_the_first_pass() -> (
    None
):
    of = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    optimizer = torch.optim.SGD(of.parameters())
    session = Session(of, optimizer, samples=9, micro_batches=2)
    for step in session.steps(1):
        optimizer.zero_grad()
        for _ in step:
            step.backward(of[0](torch.ones(1, 2)).square().mean())
    assert session.step == 1


def test_nothing_the_script_does_reaches_what_is_being_reduced() -> None:
    # a bucket each
    layers = [torch.nn.Linear(1400, 1500, bias=False) for _ in range(2)]
    of = torch.nn.Sequential(layers[0], torch.nn.Linear(1500, 1400, bias=False), layers[1])
    buckets = GradientBuckets(of)
    group = Sum()
    buckets.begin_step(cast(Group, group))
    buckets.in_last_pass = True
    of(torch.ones(1, 1400)).sum().backward()
    # some are on their way
    assert group.written
    before = [tensor.clone() for tensor in group.written]
    of.zero_grad(set_to_none=False)
    torch.nn.utils.clip_grad_norm_(of.parameters(), 1e-3)
    assert all(torch.equal(now, was) for now, was in zip(group.written, before, strict=True))


def test_gradients_keep_the_layout_that_backward_gives_them() -> None:
    of = model()
    GradientBuckets(of).begin_step(None)
    for p in of.parameters():
        assert cast(torch.Tensor, p.grad).stride() == torch.zeros_like(p).stride()


def test_what_a_broken_step_may_still_be_written_to_is_no_longer_used() -> None:
    of = model()
    alike = model()
    buckets = GradientBuckets(of)
    group = Sum()
    group.lost = True
    assert not a_step(of, buckets, group, nothing, nothing)
    assert buckets.broken
    late = group.written
    group.written = []
    group.lost = False
    assert a_step(of, buckets, group, nothing, nothing)
    for tensor in late:
        # the sum that was cut off comes now
        tensor.fill_(float("nan"))
    assert buckets.write_gradients() == 6.0
    for p, right in zip(of.parameters(), expected(alike), strict=True):
        torch.testing.assert_close(p.grad, right)


def test_what_a_broken_step_can_no_longer_be_written_to_is_used_again() -> None:
    """Fresh memory for all gradients would cost about a second a GB, at every loss."""
    of = model()
    buckets = GradientBuckets(of)
    group = Sum()
    group.lost = True
    group.may_write = False
    assert not a_step(of, buckets, group, nothing, nothing)
    before = group.written
    group.written = []
    group.lost = False
    assert a_step(of, buckets, group, nothing, nothing)
    assert [now.data_ptr() for now in group.written] == [was.data_ptr() for was in before]


def test_what_a_sum_that_could_not_begin_may_still_be_written_to_is_no_longer_used() -> None:
    """NCCL may have queued it all the same."""
    of = model()
    buckets = GradientBuckets(of)
    group = Sum()
    group.fails = True
    assert not a_step(of, buckets, group, nothing, nothing)
    before = group.written
    group.written = []
    group.fails = False
    assert a_step(of, buckets, group, nothing, nothing)
    assert before
    assert not {tensor.data_ptr() for tensor in before} & {
        tensor.data_ptr() for tensor in group.written
    }


def test_a_model_whose_type_holds_no_loss_reduces_it_by_itself() -> None:
    of = torch.nn.Linear(2, 2).bfloat16()
    buckets = GradientBuckets(of)
    group = Sum()
    buckets.begin_step(cast(Group, group))
    buckets.in_last_pass = True
    of(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    assert buckets.reduce(torch.tensor([3.0]))
    assert [(tensor.dtype, tensor.numel()) for tensor in group.written] == [
        (torch.bfloat16, 6),
        (torch.float32, 1),
    ]
    assert buckets.write_gradients() == 6.0
