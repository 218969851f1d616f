"""Any value can be read and filled."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from cede.api.objects import Json
from tests.builders.random_jobs import JSON
from webhook.json_fields import (
    copied,
    ensure_dict,
    get_annotation,
    get_dict,
    get_dicts,
    get_group_kind,
    get_label,
    get_list,
)

JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"labels": {"a": "1"}, "annotations": {"b": "2"}},
    "spec": {"items": [{"n": 1}, "text", {"n": 2}]},
}


@given(JSON)
def test_a_copy_is_equal_and_a_change_of_it_changes_nothing_else(value: Any) -> None:
    before = deepcopy(value)
    copy = copied(value)
    assert copy == value
    empty(copy)
    assert value == before


def empty(value: Any) -> None:
    """And all that is in it."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            empty(item)
        value.clear()


def test_fields_are_read() -> None:
    assert get_dict(JOB, "metadata", "labels") == {"a": "1"}
    assert get_list(JOB["spec"], "items") == [{"n": 1}, "text", {"n": 2}]
    assert get_dicts(JOB["spec"], "items") == [{"n": 1}, {"n": 2}]
    assert get_label(JOB, "a") == "1"
    assert get_annotation(JOB, "b") == "2"
    assert get_group_kind(JOB) == ("batch", "Job")
    assert get_group_kind({"apiVersion": "v1", "kind": "Pod"}) == ("", "Pod")


def test_missing_fields_are_empty() -> None:
    assert get_dict(None, "metadata") == {}
    assert get_list({}, "items") == []
    assert get_label(None, "a") == ""
    assert get_annotation({}, "b") == ""


@given(JSON)
def test_no_value_is_too_odd(value: Any) -> None:
    assert isinstance(get_dict(value, "metadata", "labels"), dict)
    if isinstance(value, dict):
        assert all(isinstance(item, dict) for item in get_dicts(value, "spec"))
        assert isinstance(get_label(value, "a"), str)


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": {"labels": 1}}])
def test_a_missing_mapping_is_created(metadata: dict[str, Any]) -> None:
    ensure_dict(metadata, "metadata", "labels")["a"] = "1"
    assert metadata == {"metadata": {"labels": {"a": "1"}}}
