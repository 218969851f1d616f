"""The micro-batches of an evaluation."""

import pytest
import torch

from elastic_runtime.data.evaluation_data import EvaluationData
from elastic_runtime.mistake import Mistake


def test_every_sample_is_in_one_micro_batch_in_order() -> None:
    data = EvaluationData(7, 3)
    assert data.micro_batches == 3
    assert [data.fetch(number) for number in range(3)] == [[0, 1, 2], [3, 4, 5], [6]]


def test_samples_of_a_dataset_are_collated() -> None:
    data = EvaluationData([(index, index / 2) for index in range(3)], 2)
    indices, halves = data.fetch(0)
    assert torch.equal(indices, torch.tensor([0, 1]))
    assert torch.equal(halves, torch.tensor([0.0, 0.5], dtype=torch.float64))
    assert data.samples == 3


def test_the_script_may_collate() -> None:
    assert EvaluationData("abc", 2, "".join).fetch(1) == "c"


LOADER: torch.utils.data.DataLoader[int] = torch.utils.data.DataLoader([1])  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [0, [], iter([1]), LOADER])
def test_other_data_is_a_mistake(data: object) -> None:
    with pytest.raises(Mistake, match=r"session\.evaluate"):
        EvaluationData(data, 1)
