"""Fixtures of the tests of a rank's lifecycle."""

from typing import Any

import pytest

from elastic_runtime.training import rank_lifecycle
from tests.fakes.rank_lifecycle import FakeGroup


@pytest.fixture
def made_groups(monkeypatch: pytest.MonkeyPatch) -> list[FakeGroup]:
    """The groups that a lifecycle has made."""
    groups: list[FakeGroup] = []

    def make(*arguments: Any) -> FakeGroup:
        groups.append(FakeGroup(*arguments))
        return groups[-1]

    monkeypatch.setattr(rank_lifecycle, "Group", make)
    return groups
