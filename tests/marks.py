"""Marks of tests that more than one folder uses."""

import os
from typing import Any

import pytest

LONG = pytest.mark.skipif("CEDE_KINDS" not in os.environ, reason="part of make test-long")
"""A test that takes minutes, that adds controllers to the cluster, or that finds little which
another test of `make test` would not find: all of these together end within an hour."""
HAS_LONG_FAULTS = "CEDE_LONG_FAULTS" in os.environ
LONG_FAULTS = pytest.mark.skipif(not HAS_LONG_FAULTS, reason="part of make test-long")
"""A test of a fault that lasts for minutes."""


def in_long(*values: Any) -> list[Any]:
    """Values of a parameter that only `make test-long` tries."""
    return [pytest.param(value, marks=LONG) for value in values]


MATRIX = pytest.mark.skipif("CEDE_CELL" not in os.environ, reason="part of make matrix")
"""A test of what other versions and feature gates of Kubernetes and Kueue do."""
