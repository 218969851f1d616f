"""Random clusters of a few minutes, scheduled by Cede on the model of Kueue."""

import pytest

from tests.harness.random_world import KEPT, World


@pytest.mark.parametrize(
    "seeds", [range(first, first + 20) for first in range(0, 100, 20)], ids=str
)
def test_nothing_is_left_behind_in_random_worlds(seeds: range) -> None:
    """No plan raises, no quota is exceeded, no queue stays strict, no job stays inactive, no
    Cession stays open, and nobody waits in vain for what its team owns."""
    broken = [
        (seed, violation)
        for seed in seeds
        for violation in World(seed).run()
        if violation.startswith(KEPT)
    ]
    assert not broken
