"""Whether gradients are finite, as loss scaling asks (training/loss_scaling.py)."""

from collections.abc import Iterable

import torch


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Also if a sum over them would be too large for their type."""
    # A GPU is waited for once, after all of them.
    are_finite = [torch.isfinite(tensor).all() for tensor in tensors]
    return all(map(bool, are_finite))
