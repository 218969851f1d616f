"""The model while it is evaluated, and afterwards as before."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode, and nothing is recorded for a backward pass.

    Afterwards every module has its own mode and its buffers as before, also after an exception.
    """
    modes = [(module, module.training) for module in model.modules()]
    buffers = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, is_training in modes:
            module.training = is_training
        for module, name, buffer, content in buffers:
            # A module may have replaced it by a larger one.
            module._buffers[name] = buffer
            with torch.no_grad():
                buffer.copy_(content)
