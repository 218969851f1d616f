"""Seeds the generators of Python, of torch, and of numpy if the script uses it, from one number."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch


def seed(value: int) -> None:
    """Afterwards the draws of every generator, also an accelerator's, depend on `value` only."""
    _torch_seed()(value)
    _seed_python_and_numpy(value)


@cache
def _torch_seed() -> Callable[[int], object]:
    """torch.manual_seed would record a stack for each kind of accelerator that this machine does
    not have, though it has a GPU: up to 1 ms."""
    if torch.cuda.is_available():
        return _seed_cpu_and_gpus
    if torch.accelerator.is_available():
        return torch.manual_seed
    return torch.default_generator.manual_seed


def _seed_cpu_and_gpus(value: int) -> None:
    torch.default_generator.manual_seed(value)
    torch.cuda.manual_seed_all(value)


@contextmanager
def isolated(value: int) -> Iterator[None]:
    """Inside, draws on the CPU depend on `value` only; afterwards all generators are as before.

    So data that draws while it is read does not change the model's dropout.
    """
    numpy = sys.modules.get("numpy")
    torch_state = torch.random.get_rng_state()
    python_state = random.getstate()
    numpy_state = numpy.random.get_state() if numpy else None
    torch.default_generator.manual_seed(value)
    _seed_python_and_numpy(value)
    try:
        yield
    finally:
        torch.random.set_rng_state(torch_state)
        random.setstate(python_state)
        if numpy and numpy_state is not None:
            numpy.random.set_state(numpy_state)


@contextmanager
def preserved() -> Iterator[None]:
    """Afterwards all generators, also that of the current GPU, are as before."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with isolated(0), torch.random.fork_rng(devices):
        yield


def _seed_python_and_numpy(value: int) -> None:
    random.seed(value)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(value % 2**32)
