"""The container that trains is the first with accelerators, or the first of all."""

from typing import Any

import pytest

from cede.api.objects import Json
from tests.builders.jobs import TEAM
from webhook.training_container import count_accelerators, find_training_container


def container(name: str, **limits: str) -> Json:
    return {
        "name": name,
        "resources": {"limits": {f"nvidia.com/{key}": limits[key] for key in limits}},
    }


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([container("a"), container("b", gpu="2")], "b", id="with accelerators"),
        pytest.param([container("a", gpu="0"), container("b")], "a", id="none has any"),
        pytest.param([None, "x", container("a")], "a", id="others are no containers"),
        pytest.param([], None, id="none"),
        pytest.param("x", None, id="no list"),
    ],
)
def test_the_container_that_trains(containers: Any, expected: str | None) -> None:
    assert find_training_container({"containers": containers}, TEAM).get("name") == expected


def test_accelerators_are_counted_over_all_their_names() -> None:
    assert count_accelerators(container("a", gpu="2", **{"mig-1g.5gb": "3"}), TEAM) == 5
    assert count_accelerators(container("a", gpu="x" * 9), TEAM) == 0
