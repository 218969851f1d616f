"""A patch turns one value into another, and nothing more."""

from typing import Any

from hypothesis import given

from tests.builders.random_jobs import JSON
from tests.fakes.patches import json_patch
from webhook.json_patch import create_patch


def test_operations_are_sorted_and_paths_are_escaped() -> None:
    before = {"a": {"x/y": 1, "gone": 1}, "b": [1, 2]}
    after = {"a": {"x/y": 2, "m~n": 3}, "b": [1, True]}
    assert create_patch(before, after) == [
        {"op": "remove", "path": "/a/gone"},
        {"op": "add", "path": "/a/m~0n", "value": 3},
        {"op": "replace", "path": "/a/x~1y", "value": 2},
        {"op": "replace", "path": "/b/1", "value": True},
    ]


@given(JSON, JSON)
def test_the_patch_turns_the_first_value_into_the_second(before: Any, after: Any) -> None:
    first = {"x": before}
    second = {"x": after}
    assert json_patch(first, create_patch(first, second)) == second
    assert create_patch(first, first) == []
