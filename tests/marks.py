"""Marks of tests that more than one folder uses."""

import os

import pytest

LONG = pytest.mark.skipif("CEDE_KINDS" not in os.environ, reason="part of make test-long")
"""A test that takes minutes, or that adds controllers to the cluster."""
MATRIX = pytest.mark.skipif("CEDE_CELL" not in os.environ, reason="part of make matrix")
"""A test of what other versions and feature gates of Kubernetes and Kueue do."""
