"""An evaluation leaves the model as it was."""

import pytest
import torch
from torch import nn

from elastic_runtime.training.evaluation_mode import evaluation_mode


@pytest.fixture
def model() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    model[2].eval()
    return model


def test_the_model_is_in_evaluation_mode_without_gradients(model: nn.Sequential) -> None:
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
        assert not model(torch.ones(4, 2)).requires_grad


@pytest.mark.parametrize("fails", [False, True])
def test_every_module_has_its_own_mode_and_buffers_afterwards(
    model: nn.Sequential, fails: bool
) -> None:
    """Also if the script has put the model into training mode inside, and after an exception."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    modes = [module.training for module in model.modules()]
    try:
        with evaluation_mode(model):
            model.train()
            model(torch.randn(4, 2))
            inside = dict(model.named_buffers())
            assert not torch.equal(inside["1.running_mean"], before["1.running_mean"])
            if fails:
                raise KeyError
    except KeyError:
        pass
    assert [module.training for module in model.modules()] == modes
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), name
    assert torch.is_grad_enabled()


def test_a_buffer_that_was_replaced_is_back() -> None:
    module = nn.Module()
    module.register_buffer("cache", torch.zeros(2), persistent=False)
    cache = module.cache
    with evaluation_mode(module):
        module.cache = torch.zeros(5)
    assert module.cache is cache
