"""What differs between a live and a desired object, who changed it, and how that is described."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api.objects import Json
from quota_controller.desired.drift import (
    describe_edits,
    differences,
    foreign_edits,
    last_manager,
    lowers_quota,
    matches,
)

OWN_MANAGER = "cede-quota-controller"


@pytest.mark.parametrize(
    ("live", "desired", "expected"),
    [
        pytest.param({"a": 1, "theirs": 2}, {"a": 1}, [], id="others may add to a map"),
        pytest.param({"a": 2}, {"a": 1}, ["a was 2, is 1 again"], id="a value"),
        pytest.param({}, {"a": "x"}, ["a was absent, is x again"], id="a removed field"),
        pytest.param(
            {"a": [1]}, {"a": [1, 2]}, ["a was [1], is [1, 2] again"], id="a list of another length"
        ),
        pytest.param(
            {"a": [{"b": 1, "c": 2}]},
            {"a": [{"b": 1}]},
            ["a[0].c was 2, is absent again"],
            id="others may not add inside a list",
        ),
        pytest.param(
            {"a": [{"nominalQuota": "4"}]},
            {"a": [{"nominalQuota": "4000m"}]},
            [],
            id="amounts are compared by value",
        ),
        pytest.param(
            {"a": [{"nominalQuota": 8}]},
            {"a": [{"nominalQuota": "4"}]},
            ["a[0].nominalQuota was 8, is 4 again"],
            id="another amount",
        ),
        pytest.param(
            {"spec": {"hard": {"count/pods": "10k"}}},
            {"spec": {"hard": {"count/pods": "10000"}}},
            [],
            id="the API server writes thousands with a letter",
        ),
        pytest.param(
            {"spec": {"hard": {"count/pods": "50k"}}},
            {"spec": {"hard": {"count/pods": "10000"}}},
            ["spec.hard.count/pods was 50k, is 10000 again"],
            id="a raised limit",
        ),
        pytest.param({"weight": 50}, {"weight": "50"}, [], id="a number is an amount"),
        pytest.param(
            {"a": "x" * 80},
            {"a": "y"},
            [f"a was {'x' * 57}..., is y again"],
            id="long values are cut",
        ),
        pytest.param({"a": None}, {"a": {"b": 1}}, ['a was null, is {"b": 1} again'], id="null"),
    ],
)
def test_differences(live: Json, desired: Json, expected: list[str]) -> None:
    assert [difference.describe() for difference in differences(live, desired)] == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(live=VALUES, desired=VALUES)
def test_an_object_matches_when_nothing_differs(live: Any, desired: Any) -> None:
    assert matches(desired, desired)
    assert matches(live, desired) == (not list(differences(live, desired)))
    for difference in differences(live, desired):
        assert difference.describe()
        assert difference.live != difference.desired


# --- the author of a change -----------------------------------------------------------------------
def managed(manager: str, fields: Json, time: str = "2027-01-01T00:00:00Z") -> Json:
    return {"manager": manager, "fieldsV1": fields, "time": time}


@pytest.mark.parametrize(
    ("fields", "path", "covered"),
    [
        pytest.param(
            {"f:spec": {"f:stopPolicy": {}}}, ("spec", "stopPolicy"), True, id="the field"
        ),
        pytest.param(
            {"f:spec": {"f:resourceGroups": {}}},
            ("spec", "resourceGroups", 0, "flavors"),
            True,
            id="a parent",
        ),
        pytest.param(
            {"f:spec": {"f:other": {}}}, ("spec", "stopPolicy"), False, id="another field"
        ),
        pytest.param(
            {"f:items": {'k:{"name":"b"}': {"f:value": {}}}},
            ("items", 1, "value"),
            True,
            id="an item by its key",
        ),
        pytest.param(
            {"f:items": {'k:{"name":"b"}': {"f:value": {}}}},
            ("items", 0, "value"),
            False,
            id="another item",
        ),
        pytest.param(
            {"f:items": {'v:"b"': {}}}, ("items", 0), False, id="an item by value has no position"
        ),
    ],
)
def test_the_manager_of_a_field(
    fields: Json, path: tuple[str | int, ...], *, covered: bool
) -> None:
    live = {
        "metadata": {"managedFields": [managed("ann", fields)]},
        "items": [{"name": "a"}, {"name": "b"}],
        "spec": {},
    }
    assert last_manager(live, path) == ("ann" if covered else "")


def test_the_last_of_several_managers_is_named() -> None:
    fields: Json = {"f:a": {}}
    entries = [managed("late", fields, "2027-01-02T00:00:00Z"), managed("early", fields)]
    assert last_manager({"metadata": {"managedFields": entries}}, ("a",)) == "late"


LIVE: Json = {
    "metadata": {"managedFields": [managed("ann", {"f:b": {}}), managed(OWN_MANAGER, {"f:a": {}})]},
    "a": 1,
    "b": 1,
    "c": 1,
}


@pytest.mark.parametrize(
    ("desired", "last_applied", "changed"),
    [
        pytest.param(
            {"a": 1, "b": 2}, {"a": 1, "b": 2}, ["b"], id="differs from what was applied last"
        ),
        pytest.param({"a": 3, "b": 1}, {"a": 1, "b": 1}, [], id="only the plan has changed"),
        pytest.param(
            {"a": 3, "b": 2, "c": 2}, None, ["b"], id="after a restart: fields of other managers"
        ),
    ],
)
def test_edits_by_others(desired: Json, last_applied: Json | None, changed: list[str]) -> None:
    edits = foreign_edits(LIVE, desired, last_applied, manager=OWN_MANAGER)
    assert [edit.path[0] for edit in edits] == changed


def test_edits_are_described_with_author_and_values() -> None:
    edits = list(differences(LIVE, dict.fromkeys("abc", 2)))
    assert describe_edits(LIVE, edits, manager=OWN_MANAGER) == (
        "changed by ann: a was 1, is 2 again, b was 1, is 2 again, c was 1, is 2 again"
    )


def test_edits_of_a_secret_are_described_without_values() -> None:
    edits = list(differences(LIVE, dict.fromkeys("abc", 2)))
    assert describe_edits(LIVE, edits, manager=OWN_MANAGER, secret=True) == (
        "changed by ann: a was changed, b was changed, c was changed"
    )


def test_many_edits_are_counted() -> None:
    edits = list(differences({}, {f"f{i}": i for i in range(9)}))
    description = describe_edits({"metadata": {}}, edits, manager=OWN_MANAGER)
    assert description.endswith("f3 was absent, is 3 again, and 5 more")


# --- the order of writing -------------------------------------------------------------------------
def queue(**quotas: int | str) -> Json:
    """A ClusterQueue with this nominal quota of `gpu` by flavor."""
    flavors = [
        {"name": name, "resources": [{"name": "gpu", "nominalQuota": value}]}
        for name, value in quotas.items()
    ]
    return {"spec": {"resourceGroups": [{"coveredResources": ["gpu"], "flavors": flavors}]}}


@pytest.mark.parametrize(
    ("live", "desired", "lower"),
    [
        pytest.param(queue(a=4), queue(a="2"), True, id="less"),
        pytest.param(queue(a=4), queue(a=4, b=2), False, id="more"),
        pytest.param(queue(a=4, b=1), queue(a=5), True, id="a type is removed"),
        pytest.param({"spec": {}}, queue(a=1), False, id="a queue without quota"),
        pytest.param(None, queue(a=1), False, id="no queue"),
    ],
)
def test_lower_quota_is_detected(live: Json | None, desired: Json, *, lower: bool) -> None:
    assert lowers_quota(live, desired) is lower
