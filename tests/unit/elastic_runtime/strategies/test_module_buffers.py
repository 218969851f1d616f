"""Buffers after a step do not depend on which rank computed which micro-batch."""

from typing import Any

import pytest
import torch

from elastic_runtime.strategies.module_buffers import ModuleBuffers


class DeferredSum:
    """A group of ranks in one process: the sum is written when all ranks have sent."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []

    def all_reduce(self, tensor: torch.Tensor) -> "DeferredSum":
        self.sent.append(tensor)
        return self

    def wait(self) -> None:
        """Nothing to do: see `finish`."""

    def finish(self) -> None:
        total = torch.stack(self.sent).sum(0)
        for tensor in self.sent:
            tensor.copy_(total)
        self.sent.clear()


def make_model() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    model.register_buffer("mask", torch.ones(4, dtype=torch.bool))
    model.register_buffer("scale", torch.tensor(1.5, dtype=torch.float64))
    return model


class Ranks:
    def __init__(self, world: int) -> None:
        self.models = [make_model() for _ in range(world)]
        self.buffers = [ModuleBuffers(model) for model in self.models]
        self._group = DeferredSum()

    def step(self, number: int, micro_batches: int = 4) -> None:
        world = len(self.models)
        for rank, (model, buffers) in enumerate(zip(self.models, self.buffers, strict=True)):
            buffers.begin_step(self._group)  # type: ignore[arg-type]
            first = rank * micro_batches // world
            last = (rank + 1) * micro_batches // world
            for micro_batch in range(first, last):
                torch.manual_seed(100 * number + micro_batch)
                model[0](torch.randn(5, 3))
                buffers.end_pass(micro_batch, contributes=True)
            assert buffers.reduce()
        self._group.finish()
        for buffers in self.buffers:
            buffers.write()


def buffers_after_3_steps(world: int) -> list[dict[str, torch.Tensor]]:
    ranks = Ranks(world)
    for number in range(3):
        ranks.step(number)
    return [dict(model.named_buffers()) for model in ranks.models]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_every_rank_has_the_buffers_that_micro_batch_0_made(world: int) -> None:
    (expected,) = buffers_after_3_steps(1)
    assert int(expected["0.num_batches_tracked"]) == 3
    for buffers in buffers_after_3_steps(world):
        assert buffers.keys() == expected.keys()
        differing = [name for name in buffers if not torch.equal(buffers[name], expected[name])]
        assert differing == []


def test_a_step_that_fails_leaves_the_buffers_unchanged() -> None:
    model = make_model()
    buffers = ModuleBuffers(model)
    before = model[0].running_mean.clone()
    buffers.begin_step(None)
    model[0](torch.randn(5, 3))
    buffers.end_pass(0, contributes=True)
    assert torch.equal(model[0].running_mean, before)


def test_a_buffer_that_never_changes_is_sent_once() -> None:
    ranks = Ranks(2)
    lengths = []
    for number in range(3):
        ranks.step(number)
        lengths.append(ranks.buffers[0]._message.numel())
    # The elements of `mask`, and the halfwords of `scale`.
    assert lengths[0] == lengths[1] + 4 + 4
    assert lengths[1] == lengths[2]
