"""ModuleBuffers after a step do not depend on who computed which micro-batch."""

import pytest
import torch

from elastic_runtime.strategies.module_buffers import ModuleBuffers


class Together:
    """Ranks of one process that sum what the others have said before."""

    def __init__(self) -> None:
        self.said: list[torch.Tensor] = []

    def all_reduce(self, tensor: torch.Tensor) -> "Together":
        self.said.append(tensor)
        return self

    def wait(self) -> None:
        """The sum is done by `step`, when all have spoken."""


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    made.register_buffer("mask", torch.ones(4, dtype=torch.bool))
    made.register_buffer("scale", torch.tensor(1.5, dtype=torch.float64))
    return made


def step(
    models: list[torch.nn.Module],
    buffers: list[ModuleBuffers],
    group: Together,
    number: int,
    micro_batches: int = 4,
) -> None:
    world = len(models)
    for rank, (one, of) in enumerate(zip(models, buffers, strict=True)):
        of.begin_step(group)  # type: ignore[arg-type]
        for micro_batch in range(
            rank * micro_batches // world, (rank + 1) * micro_batches // world
        ):
            torch.manual_seed(100 * number + micro_batch)
            one[0](torch.randn(5, 3))  # type: ignore[index]
            of.end_pass(micro_batch, contributes=True)
        assert of.reduce()
    total = torch.stack(group.said).sum(0)
    for said in group.said:
        said.copy_(total)
    group.said.clear()
    for of in buffers:
        of.write()


def after(world: int, steps: int) -> list[dict[str, torch.Tensor]]:
    models = [model() for _ in range(world)]
    buffers = [ModuleBuffers(one) for one in models]
    group = Together()
    for number in range(steps):
        step(models, buffers, group, number)
    return [dict(one.named_buffers()) for one in models]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_every_rank_has_what_micro_batch_0_made_of_them(world: int) -> None:
    (expected,) = after(1, steps=3)
    assert int(expected["0.num_batches_tracked"]) == 3
    for found in after(world, steps=3):
        assert {
            name: torch.equal(value, expected[name]) for name, value in found.items()
        } == dict.fromkeys(expected, True)


def test_a_step_that_breaks_leaves_them_as_they_were() -> None:
    one = model()
    buffers, before = ModuleBuffers(one), one[0].running_mean.clone()  # type: ignore[index]
    buffers.begin_step(None)
    one[0](torch.randn(5, 3))  # type: ignore[index]
    buffers.end_pass(0, contributes=True)
    assert torch.equal(one[0].running_mean, before)  # type: ignore[index]


def test_what_never_moves_is_sent_once() -> None:
    models = [model(), model()]
    buffers = [ModuleBuffers(one) for one in models]
    group = Together()
    lengths = []
    for number in range(3):
        step(models, buffers, group, number)
        lengths.append(buffers[0]._message.numel())
    # the mask's elements, and the halfwords of the scale
    assert lengths[0] == lengths[1] + 4 + 4
    assert lengths[1] == lengths[2]
