"""A loss that was scaled for accumulation or for float16 is told from a mean."""

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss

from elastic_runtime.loss_checks import scaled_loss_warning

SIZE = 4
MICRO_BATCHES = 16


def mean(reduction: str = "mean") -> torch.Tensor:
    outputs = torch.zeros(SIZE, 3, requires_grad=True)
    return cross_entropy(outputs, torch.zeros(SIZE, dtype=torch.long), reduction=reduction)


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        pytest.param(lambda: mean() / 8, "the loss is divided by 8", id="accumulation"),
        pytest.param(
            lambda: mean() / MICRO_BATCHES, "the loss is divided by 16", id="with one worker"
        ),
        pytest.param(
            lambda: torch.amp.GradScaler("cpu").scale(mean()),
            "the loss is multiplied by 65536, which may be the scale of a GradScaler",
            id="GradScaler",
        ),
    ],
)
def test_a_scaled_loss_is_told(loss: Callable[[], torch.Tensor], text: str) -> None:
    assert (scaled_loss_warning(loss(), MICRO_BATCHES, SIZE) or "").startswith(text)


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(mean, id="a mean"),
        pytest.param(lambda: mean(reduction="sum") / 8, id="a sum that is divided"),
        pytest.param(lambda: torch.ones(8, requires_grad=True).sum() / 8, id="also by hand"),
        pytest.param(lambda: mean() / SIZE, id="by the size of the micro-batch"),
        pytest.param(lambda: (mean() + mean()) / 2, id="the mean of two losses"),
        pytest.param(lambda: mean() / 2, id="half of it"),
        pytest.param(lambda: 0.5 * mean(), id="half of it as a factor"),
        pytest.param(lambda: mean() * 0.3, id="a weight"),
        pytest.param(lambda: mean() * 0.1, id="a weight that is the inverse of a whole number"),
        pytest.param(lambda: mean() * 0.125, id="also of one that divides the micro-batches"),
        pytest.param(lambda: mean() / 10, id="by a number that does not divide them"),
        pytest.param(lambda: mean() / 3.2, id="by a fraction"),
        pytest.param(lambda: mean() * 16 * 16, id="the square of a temperature"),
        pytest.param(lambda: mean() * 16**2, id="also in one factor"),
        pytest.param(lambda: mean() * float("inf"), id="infinity"),
        pytest.param(lambda: mean() * 2, id="a weight that is a whole number"),
        pytest.param(lambda: mean() * 0, id="nothing"),
        pytest.param(lambda: -mean(), id="a sign"),
        pytest.param(lambda: mse_loss(mean(), mean() * mean()), id="another operation"),
        pytest.param(lambda: torch.ones((), requires_grad=True), id="a parameter"),
    ],
)
def test_another_loss_is_not(loss: Callable[[], torch.Tensor]) -> None:
    assert scaled_loss_warning(loss(), MICRO_BATCHES, SIZE) is None


@pytest.mark.parametrize(
    ("loss", "weight", "text"),
    [
        pytest.param(
            lambda: mean() * 300, 300.0, "the loss is multiplied by 300, which is also", id="twice"
        ),
        pytest.param(
            lambda: mean() * 8192, 8192.0, "the loss is multiplied by 8192, which", id="no scaler"
        ),
        pytest.param(
            lambda: mean(reduction="sum"), 4.0, "the loss is a sum, and has a weight", id="a sum"
        ),
        pytest.param(lambda: mean() / 8, 8.0, None, id="a mean over what the weight counts"),
        pytest.param(lambda: mean() / 8, 7.0, "the loss is divided by 8", id="accumulation"),
        pytest.param(mean, 8.0, None, id="a mean"),
        pytest.param(lambda: mean(reduction="sum"), 1.0, None, id="a sum of weight 1"),
        pytest.param(lambda: mean() * 0, 0.0, None, id="nothing"),
    ],
)
def test_a_loss_that_already_has_its_weight_is_told(
    loss: Callable[[], torch.Tensor], weight: float, text: str | None
) -> None:
    warning = scaled_loss_warning(loss(), MICRO_BATCHES, SIZE, weight)
    assert warning is None if text is None else (warning or "").startswith(text)
