"""The loss and the gradient of a step whose micro-batches have weights."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from elastic_runtime import Deterministic, Session, Sharded
from elastic_runtime.strategies import fsdp2_internals
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.training import loss_weights
from elastic_runtime.training.loss_weights import NOT_GIVEN, StepLoss, StepLosses
from elastic_runtime.training.step import Step
from tests.builders.sessions import loss_of, small_session

WEIGHTS = (512.0, 8.0, 0.0, 16.0)
CPU = torch.device("cpu")


# --- numbers --------------------------------------------------------------------------------------


def summed(*ranks: Mapping[int, tuple[float, float | None]]) -> torch.Tensor:
    """What the ranks send, summed. A rank: its micro-batches, with loss and weight."""
    messages = []
    for rank in ranks:
        losses = StepLosses(3, CPU)
        for number, (loss, weight) in rank.items():
            losses.add(number, torch.tensor(loss), weight)
        messages.append(losses.to_sum())
    return torch.stack(messages).sum(0)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        pytest.param((None, None, None), StepLoss(2.0, 1.0), id="none: the mean"),
        pytest.param((1.0, 1.0, 1.0), StepLoss(2.0, 1.0), id="equal ones: the mean"),
        pytest.param((2.0, 0.0, 6.0), StepLoss(2.5, 3 / 8), id="others"),
        pytest.param((0.5, 0.25, 0.25), StepLoss(1.75, 3.0), id="fractions"),
    ],
)
def test_the_loss_is_the_weighted_mean_however_micro_batches_are_spread(
    weights: Sequence[float | None], expected: StepLoss
) -> None:
    all_of_them = dict(enumerate(zip((1.0, 2.0, 3.0), weights, strict=True)))
    alone = summed(all_of_them)
    spread = summed({2: all_of_them[2]}, {}, {0: all_of_them[0], 1: all_of_them[1]})
    assert torch.equal(alone, spread)
    assert loss_weights.step_loss(alone, 0) == expected


def test_a_micro_batch_of_weight_0_may_have_any_loss() -> None:
    losses = {0: (math.nan, 0.0), 1: (2.0, 4.0), 2: (math.inf, 0.0)}
    assert loss_weights.step_loss(summed(losses), 0) == StepLoss(2.0, 3 / 4)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param(
            (None, 0.0, 3.0),
            "in step 7, micro-batch 1 has a weight and micro-batch 0 has none: pass weight=... to "
            "step.backward for every micro-batch on every worker, or for none",
            id="some have none",
        ),
        pytest.param(
            (0.0, 0.0, 0.0),
            "the weights of all micro-batches of step 7 are 0, so it has no loss: give at least "
            "one of them a weight above 0, or use more or larger micro-batches",
            id="all are 0",
        ),
    ],
)
def test_weights_that_are_not_those_of_a_step_are_one_line(
    weights: Sequence[float | None], message: str
) -> None:
    losses = {number: (1.0, weight) for number, weight in enumerate(weights)}
    with pytest.raises(ValueError, match="step 7") as raised:
        loss_weights.step_loss(summed(losses), 7)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("weight", "number"),
    [
        pytest.param(300, 300.0, id="a whole number"),
        pytest.param(True, 1.0, id="a truth value"),
        pytest.param(torch.tensor(7), 7.0, id="a tensor"),
        pytest.param(torch.tensor([0.5], requires_grad=True), 0.5, id="with a gradient"),
        pytest.param(16_777_217, 16_777_216.0, id="of more than 24 bits"),
    ],
)
def test_a_weight_is_what_all_ranks_can_sum(weight: Any, number: float) -> None:
    assert loss_weights.as_number(0, weight) == number


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        pytest.param(-1, "-1", id="negative"),
        pytest.param(math.nan, "nan", id="not a number"),
        pytest.param(1e39, "1e[+]39", id="too large"),
        pytest.param("8", "8", id="text"),
        pytest.param(torch.ones(3), r"of shape \(3,\)", id="several"),
        pytest.param(torch.tensor(-2.0), "-2.0", id="a negative tensor"),
    ],
)
def test_another_weight_is_one_line(weight: Any, text: str) -> None:
    message = f"the weight of micro-batch 2 is {text}: give one finite number, at least 0, such as"
    with pytest.raises(ValueError, match=message):
        loss_weights.as_number(2, weight)


def test_a_ranks_part_of_the_loss_is_that_of_its_micro_batches() -> None:
    losses = StepLosses(4, CPU)
    losses.add(1, torch.tensor([3.0]), None)
    assert losses.part().tolist() == [0.75]
    assert losses.to_sum().tolist() == [0, 3, 0, 0, 0, NOT_GIVEN, 0, 0]
    weighted = StepLosses(4, CPU)
    weighted.add(0, torch.tensor(3.0), 5.0)
    weighted.add(2, torch.tensor(math.nan), 0.0)
    assert weighted.part().tolist() == [15.0]


# --- steps ----------------------------------------------------------------------------------------


def wrap(model: torch.nn.Module, mesh: DeviceMesh) -> None:
    fully_shard(model.get_submodule("0"), mesh=mesh)
    fully_shard(model, mesh=mesh)


STRATEGIES: dict[str, Callable[[], Strategy | None]] = {
    "replicated": lambda: None,
    "deterministic": Deterministic,
    "sharded": lambda: Sharded(wrap),
}


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))


def values(model: torch.nn.Module) -> list[torch.Tensor]:
    """This rank's rows of the parameters."""
    parameters: Any = model.parameters()
    return [getattr(p, "to_local", lambda p=p: p)().detach() for p in parameters]


def mean_loss(model: torch.nn.Module, number: int) -> torch.Tensor:
    """Of as many tokens as the micro-batch has; if it has none, nan with gradients of nan."""
    tokens = torch.arange(2 * max(WEIGHTS[number], 1)).view(-1, 2) / 100 + number
    loss: torch.Tensor = model(tokens).square().sum() / WEIGHTS[number]
    return loss if WEIGHTS[number] else loss * math.nan


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("max_norm", [1e9, 0.5])
def test_a_step_is_that_of_one_batch_of_all_tokens(strategy: str, max_norm: float) -> None:
    """With a micro-batch without tokens, which is the last of a step in turn."""
    plain = model()
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.001)
    losses = []
    norms = []
    for first in range(4):
        order = [(number + first) % 4 for number in range(4)]
        sums = [WEIGHTS[number] * mean_loss(plain, number) for number in order if WEIGHTS[number]]
        loss = torch.stack(sums).sum() / sum(WEIGHTS)
        plain_optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norms.append(float(torch.nn.utils.clip_grad_norm_(plain.parameters(), max_norm)))
        plain_optimizer.step()
        losses.append(loss.item())
    trained = model()
    session = Session(
        trained,
        torch.optim.SGD(trained.parameters(), lr=0.001),
        samples=9,
        micro_batches=4,
        strategy=STRATEGIES[strategy](),
    )
    for step in session.steps(4):
        assert session.loss == (pytest.approx(losses[step.number - 1]) if step.number else None)
        for batch in step:
            number = (batch.number + step.number) % 4
            step.backward(mean_loss(trained, number), weight=WEIGHTS[number])
        step.clip(max_norm)
    fsdp2_internals.drop_mesh()
    assert session.loss == pytest.approx(losses[-1])
    assert session.gradient_norm == pytest.approx(norms[-1], rel=1e-5)
    for now, expected in zip(values(trained), plain.parameters(), strict=True):
        torch.testing.assert_close(now, expected.detach())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_of_1_are_no_weights_bit_by_bit(strategy: str) -> None:
    states = []
    for weight in (None, 1.0):
        session = small_session(model=model(), micro_batches=3, strategy=STRATEGIES[strategy]())
        for step in session.steps(3):
            for batch in step:
                step.backward(loss_of(session, batch), weight=weight)
        states.append((session.loss, [p.tolist() for p in values(session.model)]))
        fsdp2_internals.drop_mesh()
    assert states[0] == states[1]


def run(session: Session, weights: Sequence[Any]) -> None:
    for step in session.steps(1):
        for batch in step:
            step.backward(loss_of(session, batch), weight=weights[batch.number])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        pytest.param((3, None), "micro-batch 0 has a weight and micro-batch 1 has none", id="some"),
        pytest.param((0, 0), "all micro-batches of step 0 are 0", id="all are 0"),
        pytest.param((1, -2), "the weight of micro-batch 1 is -2", id="negative"),
        pytest.param((math.nan, 1), "the weight of micro-batch 0 is nan", id="not a number"),
    ],
)
def test_a_mistake_in_weights_leaves_the_step_uncommitted(
    weights: Sequence[Any], message: str
) -> None:
    session = small_session()
    before = [p.clone() for p in session.model.parameters()]
    with pytest.raises(ValueError, match=message) as raised:
        run(session, weights)
    assert "\n" not in str(raised.value)
    assert session.step == 0
    assert all(map(torch.equal, before, session.model.parameters()))


def test_a_loss_that_is_weighted_by_hand_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    session = small_session()

    def body(step: Step) -> None:
        for batch in step:
            step.backward(loss_of(session, batch) * 8192, weight=8192)

    for step in session.steps(2):
        body(step)
    [message] = caplog.messages
    assert "the loss is multiplied by 8192, which is also its weight: pass the mean" in message
