"""Whether gradients are finite."""

import pytest
import torch

from elastic_runtime.strategies.finite_gradients import all_finite


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        pytest.param([1.0, 0.0], True, id="finite"),
        pytest.param([], True, id="none"),
        pytest.param([3e38, 3e38], True, id="whose sum is too large"),
        pytest.param([1.0, float("inf")], False, id="infinite"),
        pytest.param([float("-inf"), float("inf")], False, id="of both signs"),
        pytest.param([float("nan")], False, id="not a number"),
    ],
)
def test_one_number_that_is_not_finite_is_found_in_any_tensor(
    numbers: list[float], expected: bool
) -> None:
    assert all_finite([torch.zeros(3), torch.tensor(numbers), torch.zeros(2, 2)]) is expected


def test_no_tensors_are_finite() -> None:
    assert all_finite([])
