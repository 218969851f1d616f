"""A model that was built on the meta device begins with the values of one that was built whole."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from elastic_runtime import Session, Sharded
from elastic_runtime.state.reshard_plan import Shard
from elastic_runtime.strategies import meta_model
from elastic_runtime.strategies.meta_model import FirstValues

SEED = 7
CPU = torch.device("cpu")


class Block(nn.Module):
    """With tensors of its own, one of which no checkpoint has."""

    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2)
        self.norm = nn.BatchNorm1d(8)
        self.gain = nn.Parameter(torch.empty(8))
        self.register_buffer("scale", torch.empty(8), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.gain)
        self.scale.copy_(torch.arange(8.0))


def build() -> nn.Module:
    return nn.Sequential(nn.Embedding(5, 8), Block(), Block(), nn.Linear(8, 3))


def build_whole() -> nn.Module:
    torch.manual_seed(SEED)
    return build()


def build_on_meta() -> nn.Module:
    with torch.device("meta"):
        return build()


def first_values(model: Any, initialize: meta_model.Initialize | None = None) -> FirstValues:
    return FirstValues(model, [model[1], model[2]], initialize, CPU)


@pytest.mark.parametrize("total", [1, 3])
def test_the_values_are_those_of_a_model_that_was_built_whole(total: int) -> None:
    whole = build_whole()
    drawn: list[dict[str, torch.Tensor]] = []
    for number in range(total):
        model = build_on_meta()
        state = torch.get_rng_state()
        drawn.append(first_values(model).draw(SEED, Shard(number, total)))
        assert torch.equal(state, torch.get_rng_state())
        assert all(p.is_meta for p in model.parameters())
        for buffer, right in zip(model.buffers(), whole.buffers(), strict=True):
            assert torch.equal(buffer, right)
    for name, p in whole.named_parameters():
        assert torch.equal(torch.cat([rows[name] for rows in drawn]), p), name


def scripts_own(module: nn.Module) -> None:
    """As many scripts have it. It leaves other modules as their constructors have made them."""
    if isinstance(module, nn.Linear):
        module.weight.data.normal_(std=0.02)
        nn.init.zeros_(module.bias)
    if isinstance(module, Block):
        module.reset_parameters()
        # Of a submodule, in the same block.
        nn.init.constant_(module.attention.out_proj.bias, 2.0)


def test_the_function_of_the_script_is_called_as_by_apply() -> None:
    model = build_on_meta()
    rows = first_values(model, scripts_own).draw(SEED, Shard(0, 1))
    assert rows["3.weight"].std() < 0.04
    assert not rows["3.bias"].any()
    assert torch.equal(rows["1.attention.out_proj.bias"], torch.full((8,), 2.0))
    assert torch.equal(rows["1.norm.weight"], torch.ones(8)), "it has left the norm alone"


def test_no_more_than_one_block_is_whole_at_a_time() -> None:
    model: Any = build_on_meta()
    whole: list[list[int]] = []

    def look(module: nn.Module) -> None:
        if isinstance(module, Block):
            whole.append([n for n in (1, 2) if not model[n].gain.is_meta])
        elif isinstance(module, nn.Sequential):
            whole.append([n for n in (0, 1, 2) if not next(model[n].parameters()).is_meta])

    first_values(model, look).draw(SEED, Shard(0, 2))
    assert whole == [[1], [2], [0]]


def test_a_tensor_without_a_value_is_a_mistake() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ParameterList([torch.empty(2, device="meta")]))
    values = FirstValues(model.to("meta"), [], lambda module: None, CPU)
    with pytest.raises(ValueError, match="a ParameterList of the model on the meta device got no"):
        values.draw(SEED, Shard(0, 1))


BUFFERS = {
    "whole numbers": torch.arange(4),
    "booleans": torch.ones(4, dtype=torch.bool),
    "complex numbers": torch.full((4,), 1j),
}


class Masked(nn.Module):
    def __init__(self, values: torch.Tensor, *, is_reset: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4))
        self.values, self.is_reset = values, is_reset
        self.mask: torch.Tensor
        self.register_buffer("mask", torch.empty(4, dtype=values.dtype))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        if self.is_reset:
            self.mask.copy_(self.values)


@pytest.mark.parametrize("values", BUFFERS.values(), ids=BUFFERS)
def test_a_buffer_of_any_type_gets_its_values_or_is_a_mistake(values: torch.Tensor) -> None:
    """Zeros in place of a mask or of positions would train a wrong model without a word."""

    def draw(*, is_reset: bool) -> Masked:
        with torch.device("meta"):
            masked = Masked(values, is_reset=is_reset)
            model = nn.Sequential(masked, nn.BatchNorm1d(3))
        FirstValues(model, [masked], None, CPU).draw(SEED, Shard(0, 1))
        return masked

    assert torch.equal(draw(is_reset=True).mask, values)
    with pytest.raises(ValueError, match="a Masked of the model on the meta device got no values"):
        draw(is_reset=False)


def test_a_write_to_a_block_that_is_not_there_is_a_mistake() -> None:
    model: Any = build_on_meta()

    def initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Sequential):
            model[1].gain.data.fill_(1.0)

    with pytest.raises(
        ValueError, match=r"a tensor of shape \(8,\) is initialized while its block"
    ):
        first_values(model, initialize).draw(SEED, Shard(0, 1))


def test_only_buffers_that_no_checkpoint_has_are_drawn_for_one() -> None:
    model: Any = build_on_meta()
    first_values(model).draw_buffers(SEED)
    assert torch.equal(model[2].scale, torch.arange(8.0))
    assert model[1].norm.running_mean.is_meta
    assert all(p.is_meta for p in model.parameters())


class RandomFeatures(nn.Module):
    """With a buffer that is drawn at random, and that no checkpoint has."""

    frequencies: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.empty(8))
        self.register_buffer("frequencies", torch.empty(8), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.gain)
        self.frequencies.normal_()


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_buffers_that_no_checkpoint_has_are_those_of_the_first_start(seed: int) -> None:
    """Whatever is drawn before them, and on however many workers."""

    def build_random() -> Any:
        with torch.device("meta"):
            return nn.Sequential(nn.Linear(8, 8), RandomFeatures(), nn.Linear(8, 3))

    first, again = build_random(), build_random()
    FirstValues(first, [first[0]], None, CPU).draw(seed, Shard(1, 3))
    FirstValues(again, [again[0]], None, CPU).draw_buffers(seed)
    assert torch.equal(first[1].frequencies, again[1].frequencies)
    assert all(p.is_meta for p in again.parameters())


# --- mistakes -------------------------------------------------------------------------------------


def without_reset() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.ParameterList([torch.empty(2)])).to("meta")


def half_on_meta() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2).to("meta"), nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(without_reset, r"1 \(ParameterList\) is on the meta device and has no reset"),
        pytest.param(half_on_meta, "only a part of the model is on the meta device"),
    ],
)
def test_a_model_that_would_get_no_values_is_refused(
    make: Callable[[], nn.Module], expected: str
) -> None:
    model = make()
    strategy = Sharded(lambda model, mesh: None)
    with pytest.raises(ValueError, match=expected):
        Session(
            model,
            torch.optim.SGD(model.parameters()),
            samples=1,
            micro_batches=1,
            strategy=strategy,
        )
