"""Mistakes in what a session is created with are reported in one line that names the cure."""

from typing import Any

import pytest
import torch

from tests.builders.sessions import small_model, small_session


def frozen_model() -> torch.nn.Module:
    return small_model().requires_grad_(False)


def plateau_scheduler() -> torch.optim.lr_scheduler.ReduceLROnPlateau:
    optimizer = torch.optim.SGD(small_model().parameters())
    return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"samples": 0},
            "samples is 0: give the length of the dataset, at least 1",
            id="no samples",
        ),
        pytest.param({"samples": -3}, "samples is -3", id="fewer than no samples"),
        pytest.param(
            {"micro_batches": 0},
            "micro_batches is 0: give a whole number, at least 1",
            id="no micro-batches",
        ),
        pytest.param(
            {"micro_batches": 32 / 4},
            "micro_batches is 8.0: give a whole number",
            id="part of a micro-batch",
        ),
        pytest.param({"micro_batch_size": 0}, "micro_batch_size is 0", id="empty micro-batches"),
        pytest.param(
            {"save_every": -1},
            "save_every is -1: give a number of steps, or 0",
            id="a negative interval",
        ),
        pytest.param(
            {"local_checkpoint": "disk", "checkpoint": "shared"},
            "local_save_every is 0: give the number of steps between two saves",
            id="a local directory without an interval",
        ),
        pytest.param(
            {"local_save_every": 5},
            "local_save_every is 5 without local_checkpoint: set local_checkpoint",
            id="an interval without a local directory",
        ),
        pytest.param(
            {"local_checkpoint": "save", "checkpoint": "save", "local_save_every": 5},
            "checkpoint and local_checkpoint are both save: set checkpoint",
            id="one directory for both",
        ),
        pytest.param(
            {"local_checkpoint": "disk", "local_save_every": 5},
            "local_checkpoint is set without checkpoint",
            id="a local directory alone",
        ),
        pytest.param(
            {"optimizer": torch.optim.SGD(small_model().parameters())},
            "2 of the optimizer's 2 tensors are not parameters of the model",
            id="another model's optimizer",
        ),
        pytest.param(
            {"model": frozen_model()}, "no parameter that requires a gradient", id="frozen model"
        ),
        pytest.param(
            {"model": small_model().to("meta")}, "parameters on the meta device", id="meta device"
        ),
        pytest.param(
            {"model": torch.nn.DataParallel(small_model())},
            "the model is wrapped in DataParallel: pass the model itself",
            id="wrapped model",
        ),
        pytest.param(
            {"model": torch.optim.SGD(small_model().parameters()), "optimizer": small_model()},
            "the session is given SGD and Linear: give it the model first, then its optimizer",
            id="swapped",
        ),
        pytest.param(
            {"lr_schedulers": plateau_scheduler()},
            r"lr_schedulers is a ReduceLROnPlateau: give a list, lr_schedulers=\[...\]",
            id="no list of schedulers",
        ),
        pytest.param(
            {"lr_schedulers": [plateau_scheduler()]},
            "ReduceLROnPlateau needs a metric, .*: use a scheduler that depends on the step",
            id="plateau",
        ),
        pytest.param(
            {"samples": 0, "micro_batches": 0},
            "samples is 0.*; micro_batches is 0",
            id="all mistakes at once",
        ),
    ],
)
def test_mistakes_in_the_arguments_are_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        small_session(**options)
    assert "\n" not in str(raised.value)
