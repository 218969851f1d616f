"""All draws of a micro-batch depend on one number."""

import random

import numpy as np
import pytest
import torch

from elastic_runtime.data import random_state


def draws() -> tuple[float, float, float]:
    """One from each generator."""
    return random.random(), float(np.random.random()), float(torch.rand(()))  # noqa: S311


def test_the_same_seed_gives_the_same_draws_of_every_generator() -> None:
    random_state.seed(3)
    first = draws()
    random_state.seed(3)
    assert draws() == first
    random_state.seed(4)
    assert all(a != b for a, b in zip(draws(), first, strict=True))


def test_isolated_draws_leave_the_generators_as_they_were() -> None:
    random_state.seed(1)
    expected = draws()
    random_state.seed(1)
    with random_state.isolated(2):
        inside = draws()
    assert draws() == expected
    random_state.seed(2)
    assert draws() == inside


def test_what_is_drawn_and_seeded_inside_leaves_preserved_generators_as_they_were() -> None:
    random_state.seed(1)
    expected = draws()
    random_state.seed(1)
    with random_state.preserved():
        random_state.seed(2)
        draws()
    assert draws() == expected


def test_an_error_inside_restores_the_generators_too() -> None:
    random_state.seed(1)
    expected = draws()
    random_state.seed(1)
    with pytest.raises(OSError, match="unreadable"), random_state.isolated(2):
        raise OSError("unreadable")
    assert draws() == expected
