"""Random clusters of a few minutes, scheduled by Cede on the model of Kueue."""

import pytest

from tests.harness.random_world import World


@pytest.mark.parametrize(
    "seeds", [range(first, first + 20) for first in range(0, 100, 20)], ids=str
)
def test_every_promise_holds_in_random_worlds(seeds: range) -> None:
    """Those of tests/harness/world_promises.py, and no plan raises."""
    broken = [(seed, violation) for seed in seeds for violation in World(seed).run()]
    assert not broken
