"""A loss over the whole batch: its gradient, and mistakes."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from elastic_runtime import Deterministic, Session
from elastic_runtime.data import batch_assignment
from elastic_runtime.mistake import Mistake
from elastic_runtime.strategies.base import Pass
from elastic_runtime.training.step import Step
from tests.builders.sessions import small_session

DATA = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.3))
        self.temperature = nn.Parameter(torch.tensor(2.0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """(samples, width)"""
        codes: torch.Tensor = self.layers(inputs)
        return codes

    def contrast(self, codes: torch.Tensor) -> torch.Tensor:
        scores = codes @ codes.T * self.temperature
        return functional.cross_entropy(scores, torch.arange(len(codes)).roll(1))


def make_session(strategy: Any = None) -> Session:
    torch.manual_seed(0)
    return small_session(model=Encoder(), micro_batches=3, micro_batch_size=2, strategy=strategy)


def encoded(session: Session, batch: Any) -> torch.Tensor:
    codes: torch.Tensor = session.model(DATA[batch.indices])
    return codes


@pytest.mark.parametrize("strategy", [None, Deterministic()], ids=["replicated", "deterministic"])
def test_the_gradient_is_that_of_the_whole_batch(strategy: Any) -> None:
    session = make_session(strategy)
    model: Any = session.model
    batches = [batch_assignment.samples(session.seed, 10, 0, number, 3, 2) for number in range(3)]
    step: Step = next(session.steps(1))
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    drawn_next = torch.get_rng_state()
    codes = step.gather_batch(lambda batch: encoded(session, batch))
    assert codes.shape == (6, 3)
    assert not codes.requires_grad
    assert torch.equal(torch.get_rng_state(), drawn_next)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    losses, own_codes = [], []
    for batch in step:
        own = encoded(session, batch)
        own_codes.append(own)
        assert batch.indices == batches[batch.number]
        loss = model.contrast(step.insert_own(codes, own))
        losses.append(float(loss.detach()))
        if batch.number == 0:
            expected = torch.autograd.grad(
                model.contrast(codes), model.temperature, retain_graph=True
            )[0]
        step.backward(loss)
    assert torch.equal(torch.cat(own_codes), codes)
    session._transaction.gradients_reduced = True
    assert session._parts.strategy.reduce(step.losses.to_sum(), None)
    session._parts.strategy.write_gradients(1.0)
    torch.testing.assert_close(model.temperature.grad, expected)
    assert len({*losses}) == 1
    torch.testing.assert_close(model.layers[0].weight.grad, _weight_gradient(session, step))


def _weight_gradient(session: Session, step: Step) -> torch.Tensor:
    """Of one backward pass through all micro-batches."""
    model: Any = session.model
    codes = torch.cat([encoded(session, step._batch(Pass(number))) for number in range(3)])
    loss: torch.Tensor = model.contrast(codes)
    gradient: torch.Tensor = torch.autograd.grad(loss, model.layers[0].weight)[0]
    return gradient


def test_a_step_that_is_broken_has_rows_of_the_right_shape() -> None:
    session = make_session()
    step: Step = next(session.steps(1))
    step.collectives.peer_lost = True
    assert step.gather_batch(lambda batch: encoded(session, batch)).shape == (6, 3)
    assert step.gather_batch(lambda batch: torch.ones(2)).shape == (6,)


# --- mistakes -------------------------------------------------------------------------------------


def gather_behind(session: Session, step: Step) -> None:
    for batch in step:
        step.backward(encoded(session, batch).sum())
    step.gather_batch(lambda batch: encoded(session, batch))


def insert_before(session: Session, step: Step) -> None:
    step.insert_own(torch.ones(6, 3), torch.ones(2, 3))


def insert_another_shape(session: Session, step: Step) -> None:
    for _ in step:
        step.insert_own(torch.ones(6, 3), torch.ones(3, 3))


def give_a_weight(session: Session, step: Step) -> None:
    rows = step.gather_batch(lambda batch: encoded(session, batch))
    for batch in step:
        step.backward(step.insert_own(rows, encoded(session, batch)).sum(), weight=2)


def return_a_number(_: Session, step: Step) -> None:
    step.gather_batch(lambda batch: torch.tensor(1.0))


def return_no_tensor(_: Session, step: Step) -> None:
    step.gather_batch(lambda batch: [1.0])  # type: ignore[arg-type,return-value]


def return_other_rows(_: Session, step: Step) -> None:
    step.gather_batch(lambda batch: torch.ones(1 + batch.number))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(gather_behind, "gather_batch was called behind the loop", id="behind"),
        pytest.param(insert_before, "insert_own was called outside the loop", id="outside"),
        pytest.param(insert_another_shape, "was given rows of shape .6, 3., and .3, 3. ", id="own"),
        pytest.param(give_a_weight, "the loss of micro-batch 0 has a weight, but", id="weight"),
        pytest.param(return_a_number, "returned a single number: return rows", id="a number"),
        pytest.param(return_no_tensor, "was given a list: give it a tensor", id="no tensor"),
        pytest.param(return_other_rows, "equally many rows for each", id="other rows"),
    ],
)
def test_a_mistake_is_one_line_with_the_cure(body: Any, message: str) -> None:
    session = make_session()
    with pytest.raises(Mistake, match=message) as raised:
        body(session, next(session.steps(1)))
    assert "\n" not in str(raised.value)


def test_samples_without_an_index_are_refused() -> None:
    session = small_session(samples=None)
    session.streams(lambda number, count, epoch: iter(range(9)))
    step: Step = next(session.steps(1))
    with pytest.raises(Mistake, match="gather_batch needs samples by index, but they come from"):
        step.gather_batch(lambda batch: torch.ones(1))
