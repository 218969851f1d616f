"""All draws of a micro-batch depend on one number."""

import random
import traceback

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


def test_kinds_of_accelerators_that_are_not_there_cost_no_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch.manual_seed records one for each, in every micro-batch."""
    stacks = list[int]()
    gpu_seeds = list[int]()
    monkeypatch.setattr(traceback, "format_stack", lambda: stacks.append(1))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "manual_seed_all", gpu_seeds.append)
    random_state._torch_seed.cache_clear()
    try:
        random_state.seed(7)
    finally:
        random_state._torch_seed.cache_clear()
    assert (gpu_seeds, torch.initial_seed(), stacks) == ([7], 7, [])
