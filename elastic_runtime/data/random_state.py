"""Everything random follows from one number: Python's, numpy's (if the script uses it) and torch's
generators."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


def seed(value: int) -> None:
    """Afterwards the next draw of every generator, accelerators' included, is a function of
    `value`."""
    if _accelerated():
        torch.manual_seed(value)
    else:
        # the other one writes down the stack for accelerators that are not there: 1 ms
        torch.default_generator.manual_seed(value)
    _seed_others(value)


@cache
def _accelerated() -> bool:
    return torch.accelerator.is_available()


@contextmanager
def apart(value: int) -> Iterator[None]:
    """Inside, draws on the CPU follow from `value`; afterwards the generators are as they were, so
    reading data disturbs no dropout."""
    numpy = sys.modules.get("numpy")
    ours = torch.random.get_rng_state()
    others = (random.getstate(), numpy.random.get_state() if numpy else None)
    torch.default_generator.manual_seed(value)
    _seed_others(value)
    try:
        yield
    finally:
        torch.random.set_rng_state(ours)
        random.setstate(others[0])
        if numpy and others[1] is not None:
            numpy.random.set_state(others[1])


def _seed_others(value: int) -> None:
    random.seed(value)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(value % 2**32)
