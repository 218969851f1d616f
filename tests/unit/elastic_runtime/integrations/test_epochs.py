"""An epoch is the same thing to all frameworks."""

import pytest

from elastic_runtime.integrations.epochs import Epochs


@pytest.mark.parametrize(
    ("samples", "ends", "places"),
    [
        pytest.param(32, [4, 8], [0, 1, 2, 3, 0, 1, 2, 3], id="whole batches"),
        pytest.param(30, [4, 8], [0, 1, 2, 3, 0, 1, 2, 3], id="a batch has the end of an epoch"),
        pytest.param(20, [3, 5, 8], [0, 1, 2, 0, 1, 0, 1, 2], id="epochs of different lengths"),
        pytest.param(8, [1, 2, 3, 4, 5, 6, 7, 8], [0] * 8, id="an epoch is a step"),
        pytest.param(3, [1, 2, 3, 4, 5, 6, 7, 8], [0] * 8, id="several end in a step"),
    ],
)
def test_an_epoch_ends_with_the_step_that_uses_its_last_sample(
    samples: int, ends: list[int], places: list[int]
) -> None:
    epochs = Epochs(samples, 8)
    assert [step for step in range(9) if epochs.ends(step)] == ends
    assert [epochs.place(step) for step in range(8)] == places
    assert [epochs.ended(step) for step in range(9)] == [step * 8 // samples for step in range(9)]


@pytest.mark.parametrize(
    ("samples", "every", "ends"),
    [(32, 2, [8, 16]), (20, 2, [5, 10, 15]), (20, 3, [8, 15]), (3, 4, [2, 3, 5, 6, 8])],
)
def test_groups_of_epochs_end_with_the_last_of_them(
    samples: int, every: int, ends: list[int]
) -> None:
    last = ends[-1]
    assert [step for step in range(last + 1) if Epochs(samples, 8).ends(step, every)] == ends


@pytest.mark.parametrize(("epochs", "steps"), [(0, 0), (1, 3), (2, 5), (1.5, 4), (3, 8)])
def test_epochs_are_used_when_the_last_of_them_ends(epochs: float, steps: int) -> None:
    chosen = Epochs(20, 8)
    assert chosen.steps(epochs) == steps
    assert chosen.used(steps) >= epochs
